"""What learns: layers of units (Eq. 1 of the saddle-to-saddle paper), stacks of them, deep and
diagonal linear networks, and their initial weights."""

from ._activations import Activation as Activation
from ._activations import activation as activation
from ._activations import leaky_relu as leaky_relu
from ._activations import power as power
from ._balanced import balanced as balanced
from ._build import attention as attention
from ._build import convolutional as convolutional
from ._build import fully_connected as fully_connected
from ._build import gaussian as gaussian
from ._build import low_rank as low_rank
from ._decoupled import decoupled as decoupled
from ._deep import DeepLinear as DeepLinear
from ._deep import deep_linear as deep_linear
from ._deep import deep_linear_from as deep_linear_from
from ._diagonal import DiagonalLinear as DiagonalLinear
from ._diagonal import diagonal_linear as diagonal_linear
from ._diagonal import diagonal_linear_from as diagonal_linear_from
from ._from_run import from_run as from_run
from ._greedy_pretrained import greedy_pretrained as greedy_pretrained
from ._layer import Layer as Layer
from ._layer import layer as layer
from ._network import AbstractNetwork as AbstractNetwork
from ._orthogonal import orthogonal as orthogonal
from ._seeds import seeds as seeds
from ._stack import Stack as Stack
from ._stack import stack_from as stack_from
from ._stack_build import convolutional_stack as convolutional_stack
from ._stack_build import gaussian_stack as gaussian_stack
from ._stack_build import linear_transformer as linear_transformer
from ._stack_build import stack as stack
from ._units import AbstractUnit as AbstractUnit
from ._units import Kernel as Kernel
from ._units import LinearHead as LinearHead
from ._units import Neuron as Neuron
from ._units import SoftmaxHead as SoftmaxHead
