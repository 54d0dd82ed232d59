"""Network architectures and their initial weights.

One hidden layer of neurons, convolution kernels or attention heads is a `Layer`, Eq. (1) of Zhang,
Saxe & Latham. `DeepNetwork`, `DeepLinear`, `DiagonalLinear` and `Gated` are the other
architectures.
"""

from ._activations import Activation as Activation
from ._activations import activation as activation
from ._activations import leaky_relu as leaky_relu
from ._activations import power as power
from ._as_gated import gated_equivalent as gated_equivalent
from ._as_gated import rectifier_gates as rectifier_gates
from ._balanced import lambda_balanced as lambda_balanced
from ._build import attention as attention
from ._build import convolutional_1d as convolutional_1d
from ._build import fully_connected as fully_connected
from ._build import gaussian_layer as gaussian_layer
from ._build import low_rank_layer as low_rank_layer
from ._decoupled import decoupled as decoupled
from ._decoupled import with_decoupled_weights as with_decoupled_weights
from ._deep_build import deep_convolutional as deep_convolutional
from ._deep_build import deep_gaussian as deep_gaussian
from ._deep_build import deep_network as deep_network
from ._deep_build import linear_transformer as linear_transformer
from ._deep_linear import DeepLinear as DeepLinear
from ._deep_linear import deep_linear as deep_linear
from ._deep_linear import deep_linear_from as deep_linear_from
from ._deep_network import DeepNetwork as DeepNetwork
from ._deep_network import deep_network_from as deep_network_from
from ._diagonal import DiagonalLinear as DiagonalLinear
from ._diagonal import diagonal_linear as diagonal_linear
from ._diagonal import diagonal_linear_from as diagonal_linear_from
from ._final_networks import final_networks as final_networks
from ._gated import Gated as Gated
from ._gated import gated as gated
from ._gated import gated_from as gated_from
from ._greedy_pretrained_linear import greedy_pretrained_linear as greedy_pretrained_linear
from ._layer import Layer as Layer
from ._layer import layer_from as layer_from
from ._network import AbstractNetwork as AbstractNetwork
from ._orthogonal import orthogonal as orthogonal
from ._seeds import seeds as seeds
from ._units import AbstractUnit as AbstractUnit
from ._units import ConvolutionUnit as ConvolutionUnit
from ._units import LinearAttentionUnit as LinearAttentionUnit
from ._units import NeuronUnit as NeuronUnit
from ._units import SoftmaxAttentionUnit as SoftmaxAttentionUnit
from ._width_scaled_network import WidthScaledNetwork as WidthScaledNetwork
from ._width_scaled_network import draw_from_prior as draw_from_prior
