"""Errors of invalid calls of operators, with the names and values that their messages mention."""

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
    Mistake("relu_arr", lambda: relu(a8), TensorError, ("data of relu 'relu'", "tensor", "array([[0, 0, 0")),
    Mistake("flat_arr", lambda: flatten(a8), TensorError, ("data of flatten 'flatten'", "tensor", "array([[0, 0, 0")),
    Mistake("mm_rank", lambda: matmul(V, A), TensorError, ("A of matmul 'matmul'", 2, "(M, K)", "(10,)")),
    Mistake("mm_inner", lambda: matmul(A, placeholder((4, 8), "int8", "B")), TensorError,
        ("matmul 'matmul'", "8 of A", "(8, 8)", "4 of B", "(4, 8)", "transpose_b=True")),
    Mistake("mm_dtype", lambda: matmul(A, M), TensorError, ("dtype of B of matmul 'matmul'", "int8 or int32", "bool")),
    Mistake("mm_tensor", lambda: matmul(a8, A), TensorError, ("A of matmul 'matmul'", "tensor", "array([[0, 0, 0")),
    Mistake("add_shape", lambda: add(A, V), TensorError, ("shapes of add 'add'", "(8, 8) of A", "(10,) of B")),
    Mistake("bias_shape", lambda: bias_add(I, bias), TensorError,
        ("bias of bias_add 'bias_add'", "(4,)", "axis -1", "(3,)")),
    Mistake("bias_axis", lambda: bias_add(I, bias, axis=4), TensorError, ("axis of bias_add 'bias_add'", "-4 to 3", 4)),
    Mistake("bias_dtype", lambda: bias_add(D, bias), TensorError,
        ("dtype of data of bias_add 'bias_add'", "int32", "int8")),
    Mistake("clip_range", lambda: clip(A, -129, 5), TensorError, ("low of clip 'clip'", "-128 to 127", "int8", -129)),
    Mistake("clip_order", lambda: clip(A, 6, 5), TensorError, ("low of clip 'clip'", 5, 6)),
    Mistake("relu_dtype", lambda: relu(M), TensorError,
        ("dtype of data of relu 'relu'", "int8 or int16 or int32 or int64", "bool")),
    Mistake("rq_shift", lambda: requantise(I, 32), TensorError, ("shift of requantise 'requantise'", "0 to 31", 32)),
    Mistake("rq_dtype", lambda: requantise(D, 3), TensorError,
        ("dtype of data of requantise 'requantise'", "int32", "int8")),
    Mistake("rq_low", lambda: requantise(I, 3, low=-200), TensorError,
        ("low of requantise 'requantise'", "-128 to 127", "int8", -200)),
    Mistake("conv_layout", lambda: conv2d(D, W, layout="CHWN"), TensorError,
        ("layout of conv2d 'conv2d'", "NHWC or NCHW", "'CHWN'")),
    Mistake("conv_klayout", lambda: conv2d(D, W, kernel_layout="IOHW"), TensorError,
        ("kernel_layout of conv2d 'conv2d'", "OHWI, OIHW or HWIO", "'IOHW'")),
    Mistake("conv_rank", lambda: conv2d(A, W), TensorError, ("data of conv2d 'conv2d'", 4, "NHWC", "(8, 8)")),
    Mistake("conv_dtype", lambda: conv2d(I, W), TensorError, ("dtype of data of conv2d 'conv2d'", "int8", "int32")),
    Mistake("conv_stride", lambda: conv2d(D, W, stride=0), TensorError, ("stride of conv2d 'conv2d'", "positive", 0)),
    Mistake("conv_dil", lambda: conv2d(D, W, dilation=(1, 2, 3)), TensorError,
        ("dilation of conv2d 'conv2d'", "pair", "(1, 2, 3)")),
    Mistake("conv_pad", lambda: conv2d(D, W, padding=-1), TensorError,
        ("padding of conv2d 'conv2d'", "((top, bottom), (left, right))", -1)),
    Mistake("conv_groups", lambda: conv2d(D, W, groups=3), TensorError,
        ("groups of conv2d 'conv2d'", "4 input channels", 3)),
    Mistake("conv_groups0", lambda: conv2d(D, W, groups=0), TensorError, ("groups of conv2d 'conv2d'", "positive", 0)),
    Mistake("conv_channels", lambda: conv2d(D, placeholder((8, 3, 3, 3), "int8", "W")), TensorError,
        ("weight of conv2d 'conv2d'", 4, "1 group", 3)),
    Mistake("conv_group_channels", lambda: conv2d(D, W, groups=2), TensorError,
        ("weight of conv2d 'conv2d'", "must be 2", "2 groups", "not 4")),
    Mistake("conv_big", lambda: conv2d(D, placeholder((8, 9, 9, 4), "int8", "W")), TensorError,
        ("height of conv2d 'conv2d'", "kernel", 9, 8)),
    Mistake("deep_channels", lambda: depthwise_conv2d(D, placeholder((3, 3, 5), "int8", "W")), TensorError,
        ("weight of depthwise_conv2d 'depthwise'", "(KH, KW, 4)", "(KH, KW, 4, M)", "4 channels", "(3, 3, 5)")),
    Mistake("deep_rank", lambda: depthwise_conv2d(D, A, name="d"), TensorError,
        ("weight of depthwise_conv2d 'd'", "(KH, KW, 4)", "(KH, KW, 4, M)", "4 channels", "(8, 8)")),
    Mistake("deep_dtype", lambda: depthwise_conv2d(D, I), TensorError,
        ("dtype of weight of depthwise_conv2d 'depthwise'", "int8", "int32")),
    Mistake("deep_big", lambda: depthwise_conv2d(D, placeholder((9, 1, 4), "int8", "W")), TensorError,
        ("height of depthwise_conv2d 'depthwise'", "kernel", 9, 8)),
    Mistake("pool_big", lambda: max_pool2d(D, 9), TensorError, ("height of max_pool2d 'max_pool2d'", "window", 9, 8)),
    Mistake("pool_pad", lambda: max_pool2d(D, 2, padding=2), TensorError,
        ("padding of max_pool2d 'max_pool2d'", "window (2, 2)", "not 2")),
    Mistake("pool_dtype", lambda: avg_pool2d(I, 2), TensorError,
        ("dtype of data of avg_pool2d 'avg_pool2d'", "int8", "int32")),
    Mistake("pad_value", lambda: pad2d(D, 1, value=200), TensorError, ("constant", "int8", "-128 to 127", 200)),
    Mistake("flat", lambda: flatten(V), TensorError, ("data of flatten 'flatten'", "batch dimension", "(10,)")),
    Mistake("reshape", lambda: reshape(A, (3, 5)), TensorError,
        ("reshape 'reshape'", "64 elements", "(8, 8)", 15, "(3, 5)")),
    Mistake("reshape_neg", lambda: reshape(A, (-1, 8)), TensorError,
        ("dimension 0 of reshape 'reshape'", "positive", -1)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
    check_message(case)
