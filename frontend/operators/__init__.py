"""Neural-network operators, written in the tensor language.

Each builds one computation or a few, whose expressions alone define its semantics. Products of int8 accumulate in
int32. The ``attrs`` of a computation record the arguments of the operator.
"""

from lathe.frontend.operators.convolution import conv2d
from lathe.frontend.operators.depthwise import depthwise_conv2d
from lathe.frontend.operators.elementwise import add, bias_add, clip, relu
from lathe.frontend.operators.linear import dense, matmul
from lathe.frontend.operators.padding import pad2d
from lathe.frontend.operators.pooling import avg_pool2d, max_pool2d
from lathe.frontend.operators.requantisation import requantise
from lathe.frontend.operators.rescaling import lookup, rescaled_add
from lathe.frontend.operators.reshaping import flatten, reshape

__all__ = [
    "add",
    "avg_pool2d",
    "bias_add",
    "clip",
    "conv2d",
    "dense",
    "depthwise_conv2d",
    "flatten",
    "lookup",
    "matmul",
    "max_pool2d",
    "pad2d",
    "relu",
    "requantise",
    "rescaled_add",
    "reshape",
]
