"""What learns: layers of units (Eq. 1 of the saddle-to-saddle paper), deep linear networks, and
their initial weights."""

from ._activations import Activation as Activation
from ._activations import activation as activation
from ._activations import leaky_relu as leaky_relu
from ._activations import power as power
from ._algebra import Algebra as Algebra
from ._algebra import measure_algebra as measure_algebra
from ._build import attention as attention
from ._build import convolutional as convolutional
from ._build import fully_connected as fully_connected
from ._build import gaussian as gaussian
from ._build import low_rank as low_rank
from ._deep import DeepLinear as DeepLinear
from ._deep import DeepStructure as DeepStructure
from ._deep import deep_linear as deep_linear
from ._deep import deep_linear_from as deep_linear_from
from ._initialisations import balanced as balanced
from ._initialisations import decoupled as decoupled
from ._initialisations import greedy_pretrained as greedy_pretrained
from ._initialisations import orthogonal as orthogonal
from ._layer import Layer as Layer
from ._layer import layer as layer
from ._network import AbstractNetwork as AbstractNetwork
from ._seeds import seeds as seeds
from ._structure import AbstractStructure as AbstractStructure
from ._structure import Structure as Structure
from ._units import AbstractUnit as AbstractUnit
from ._units import Kernel as Kernel
from ._units import LinearHead as LinearHead
from ._units import Neuron as Neuron
from ._units import SoftmaxHead as SoftmaxHead
