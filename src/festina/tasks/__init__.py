"""What is to be learned: inputs, targets, and their exact statistics."""

from . import worlds as worlds
from ._contextual import context_features as context_features
from ._contextual import contextual as contextual
from ._contextual import published_contextual as published_contextual
from ._cubature import gaussian_points as gaussian_points
from ._distillation import distillation as distillation
from ._in_context import in_context_regression as in_context_regression
from ._mnist import mnist as mnist
from ._modular import modular_addition as modular_addition
from ._points import kernel_points as kernel_points
from ._points import orthogonal_points as orthogonal_points
from ._points import xor as xor
from ._routing import cyclic_pairs as cyclic_pairs
from ._routing import inherited_features as inherited_features
from ._routing import published_routing as published_routing
from ._routing import routing as routing
from ._structured import nested_tree as nested_tree
from ._structured import signed_tree as signed_tree
from ._structured import structured_task as structured_task
from ._task import AbstractTask as AbstractTask
from ._task import Task as Task
from ._task import task as task
from ._teachers import convolutional_teacher as convolutional_teacher
from ._teachers import linear_teacher as linear_teacher
from ._teachers import quadratic_teacher as quadratic_teacher
from ._teachers import student_teacher as student_teacher
