"""Every mistake in calling an operator gives its own whole message."""

# The parameters of these functions name axes, used or not.

import pytest
from mistaken_programs import A, D, I, M, Mistake, V, W, a8, bias, check_message

from lathe.frontend import (
    TensorError,
    placeholder,
)
from lathe.frontend.operators import (
    add,
    avg_pool2d,
    bias_add,
    clip,
    conv2d,
    depthwise_conv2d,
    flatten,
    matmul,
    max_pool2d,
    pad2d,
    relu,
    requantise,
    reshape,
)

# fmt: off
CASES = [
    Mistake("relu_arr", lambda: relu(a8), TensorError,
        "data of relu 'relu' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]...."),
    Mistake("flat_arr", lambda: flatten(a8), TensorError,
        "data of flatten 'flatten' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, "
        "0]...."),
    Mistake("mm_rank", lambda: matmul(V, A), TensorError,
        "A of matmul 'matmul' must have 2 dimensions, (M, K), not the shape (10,)."),
    Mistake("mm_inner", lambda: matmul(A, placeholder((4, 8), "int8", "B")), TensorError,
        "inner extents of matmul 'matmul' must be equal, not 8 of A with the shape (8, 8) and 4 of B with the shape "
        "(4, 8). Pass transpose_b=True if B has its dimensions the other way round."),
    Mistake("mm_dtype", lambda: matmul(A, M), TensorError,
        "dtype of B of matmul 'matmul' must be int8 or int32, not bool."),
    Mistake("mm_tensor", lambda: matmul(a8, A), TensorError,
        "A of matmul 'matmul' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]...."),
    Mistake("add_shape", lambda: add(A, V), TensorError,
        "shapes of add 'add' must be equal, not (8, 8) of A and (10,) of B."),
    Mistake("bias_shape", lambda: bias_add(I, bias), TensorError,
        "shape of the bias of bias_add 'bias_add' must be (4,), the extent of axis -1 of its data, not (3,)."),
    Mistake("bias_axis", lambda: bias_add(I, bias, axis=4), TensorError,
        "axis of bias_add 'bias_add' must be -4 to 3, not 4."),
    Mistake("bias_dtype", lambda: bias_add(D, bias), TensorError,
        "dtype of data of bias_add 'bias_add' must be int32, not int8."),
    Mistake("clip_range", lambda: clip(A, -129, 5), TensorError,
        "low of clip 'clip' must be an integer from -128 to 127, as int8 is, not -129."),
    Mistake("clip_order", lambda: clip(A, 6, 5), TensorError,
        "low of clip 'clip' must be at most its high, 5, not 6."),
    Mistake("relu_dtype", lambda: relu(M), TensorError,
        "dtype of data of relu 'relu' must be int8 or int16 or int32 or int64, not bool."),
    Mistake("rq_shift", lambda: requantise(I, 32), TensorError,
        "shift of requantise 'requantise' must be an integer from 0 to 31, not 32."),
    Mistake("rq_dtype", lambda: requantise(D, 3), TensorError,
        "dtype of data of requantise 'requantise' must be int32, not int8."),
    Mistake("rq_low", lambda: requantise(I, 3, low=-200), TensorError,
        "low of requantise 'requantise' must be an integer from -128 to 127, as int8 is, not -200."),
    Mistake("conv_layout", lambda: conv2d(D, W, layout="CHWN"), TensorError,
        "layout of conv2d 'conv2d' must be NHWC or NCHW, not 'CHWN'."),
    Mistake("conv_klayout", lambda: conv2d(D, W, kernel_layout="IOHW"), TensorError,
        "kernel_layout of conv2d 'conv2d' must be OHWI, OIHW or HWIO, not 'IOHW'."),
    Mistake("conv_rank", lambda: conv2d(A, W), TensorError,
        "data of conv2d 'conv2d' must have 4 dimensions, one for each letter of NHWC, not the shape (8, 8)."),
    Mistake("conv_dtype", lambda: conv2d(I, W), TensorError,
        "dtype of data of conv2d 'conv2d' must be int8, not int32."),
    Mistake("conv_stride", lambda: conv2d(D, W, stride=0), TensorError,
        "stride of conv2d 'conv2d' must be a positive integer or a pair of them, not 0."),
    Mistake("conv_dil", lambda: conv2d(D, W, dilation=(1, 2, 3)), TensorError,
        "dilation of conv2d 'conv2d' must be a positive integer or a pair of them, not (1, 2, 3)."),
    Mistake("conv_pad", lambda: conv2d(D, W, padding=-1), TensorError,
        "padding of conv2d 'conv2d' must be an integer of at least 0, a pair (vertical, horizontal) or ((top, "
        "bottom), (left, right)), not -1."),
    Mistake("conv_groups", lambda: conv2d(D, W, groups=3), TensorError,
        "groups of conv2d 'conv2d' must divide its 4 input channels, not be 3."),
    Mistake("conv_groups0", lambda: conv2d(D, W, groups=0), TensorError,
        "groups of conv2d 'conv2d' must be a positive integer, not 0."),
    Mistake("conv_channels", lambda: conv2d(D, placeholder((8, 3, 3, 3), "int8", "W")), TensorError,
        "input channels of the weight of conv2d 'conv2d' must be 4, 4 of the data in 1 group, not 3."),
    Mistake("conv_group_channels", lambda: conv2d(D, W, groups=2), TensorError,
        "input channels of the weight of conv2d 'conv2d' must be 2, 4 of the data in 2 groups, not 4."),
    Mistake("conv_big", lambda: conv2d(D, placeholder((8, 9, 9, 4), "int8", "W")), TensorError,
        "height of conv2d 'conv2d' must be at least 9 with its padding, the reach of the kernel, not 8. Add padding "
        "or take a smaller kernel."),
    Mistake("deep_channels", lambda: depthwise_conv2d(D, placeholder((3, 3, 5), "int8", "W")), TensorError,
        "weight of depthwise_conv2d 'depthwise' must have shape (KH, KW, 4) or (KH, KW, 4, M), as the data have 4 "
        "channels, not (3, 3, 5)."),
    Mistake("deep_rank", lambda: depthwise_conv2d(D, A, name="d"), TensorError,
        "weight of depthwise_conv2d 'd' must have shape (KH, KW, 4) or (KH, KW, 4, M), as the data have 4 channels, "
        "not (8, 8)."),
    Mistake("deep_dtype", lambda: depthwise_conv2d(D, I), TensorError,
        "dtype of weight of depthwise_conv2d 'depthwise' must be int8, not int32."),
    Mistake("deep_big", lambda: depthwise_conv2d(D, placeholder((9, 1, 4), "int8", "W")), TensorError,
        "height of depthwise_conv2d 'depthwise' must be at least 9 with its padding, the reach of the kernel, not 8. "
        "Add padding or take a smaller kernel."),
    Mistake("pool_big", lambda: max_pool2d(D, 9), TensorError,
        "height of max_pool2d 'max_pool2d' must be at least 9 with its padding, the window's, not 8."),
    Mistake("pool_pad", lambda: max_pool2d(D, 2, padding=2), TensorError,
        "padding of max_pool2d 'max_pool2d' must be smaller than its window (2, 2), not 2: a window would hold "
        "nothing but padding."),
    Mistake("pool_dtype", lambda: avg_pool2d(I, 2), TensorError,
        "dtype of data of avg_pool2d 'avg_pool2d' must be int8, not int32."),
    Mistake("pad_value", lambda: pad2d(D, 1, value=200), TensorError,
        "value of a constant of dtype int8 must be -128 to 127, not 200."),
    Mistake("flat", lambda: flatten(V), TensorError,
        "data of flatten 'flatten' must have a batch dimension and others, not the shape (10,)."),
    Mistake("reshape", lambda: reshape(A, (3, 5)), TensorError,
        "shape of reshape 'reshape' must have 64 elements, as (8, 8) has, not 15, as (3, 5) has."),
    Mistake("reshape_neg", lambda: reshape(A, (-1, 8)), TensorError,
        "extent of dimension 0 of reshape 'reshape' must be a positive integer, not -1. A tensor has at least one "
        "element."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    check_message(case)
