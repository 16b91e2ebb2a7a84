"""Operators against independent formulations in NumPy."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lathe.frontend import placeholder, reference, topological
from lathe.frontend.operators import (
    add,
    avg_pool2d,
    bias_add,
    clip,
    conv2d,
    dense,
    depthwise_conv2d,
    flatten,
    matmul,
    max_pool2d,
    pad2d,
    relu,
    requantise,
    reshape,
)
from lathe.frontend.operators.pooling import division_by


def int8(seed, shape):
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def int32(seed, shape):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape, np.int32)


def convolution(data, weight, stride, padding, dilation, groups):
    """NHWC data and OHWI weight; one tap at a time, one group at a time."""
    (top, bottom), (left, right) = padding
    data = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0))).astype(np.int64)
    outputs, taps_y, taps_x, inner = weight.shape
    height = (data.shape[1] - dilation[0] * (taps_y - 1) - 1) // stride[0] + 1
    width = (data.shape[2] - dilation[1] * (taps_x - 1) - 1) // stride[1] + 1
    result = np.zeros((data.shape[0], height, width, outputs), np.int64)
    per_group = outputs // groups
    for group in range(groups):
        mine = slice(group * per_group, (group + 1) * per_group)
        for ry in range(taps_y):
            for rx in range(taps_x):
                rows = slice(ry * dilation[0], ry * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
                columns = slice(rx * dilation[1], rx * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
                patch = data[:, rows, columns, group * inner : (group + 1) * inner]
                result[..., mine] += np.tensordot(patch, weight[mine, ry, rx].astype(np.int64), ([3], [1]))
    return result.astype(np.int32)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.data())
def test_convolution_in_every_layout_equals_numpy(draw):
    pick = draw.draw
    groups = pick(st.sampled_from([1, 1, 2, 3]))
    channels, outputs = groups * pick(st.integers(1, 4)), groups * pick(st.integers(1, 4))
    taps = pick(st.integers(1, 3)), pick(st.integers(1, 3))
    stride = pick(st.integers(1, 3)), pick(st.integers(1, 3))
    dilation = pick(st.integers(1, 2)), pick(st.integers(1, 2))
    padding = tuple((pick(st.integers(0, 2)), pick(st.integers(0, 2))) for _ in range(2))
    reach = [d * (t - 1) + 1 for d, t in zip(dilation, taps, strict=True)]
    height, width = (
        pick(st.integers(sorted((1, r - before - after))[1], r + 6))
        for r, (before, after) in zip(reach, padding, strict=True)
    )
    batch = pick(st.integers(1, 2))
    layout = pick(st.sampled_from(["NHWC", "NCHW"]))
    kernel_layout = pick(st.sampled_from([None, "OHWI", "OIHW", "HWIO"]))
    seed = pick(st.integers(0, 2**31))
    data, weight = int8(seed, (batch, height, width, channels)), int8(seed + 1, (outputs, *taps, channels // groups))
    expected = convolution(data, weight, stride, padding, dilation, groups)
    used = kernel_layout or ("OHWI" if layout == "NHWC" else "OIHW")
    weight = weight.transpose(["OHWI".index(letter) for letter in used])
    if layout == "NCHW":
        data, expected = data.transpose(0, 3, 1, 2), expected.transpose(0, 3, 1, 2)
    D, W = placeholder(data.shape, "int8", "D"), placeholder(weight.shape, "int8", "W")
    C = conv2d(
        D, W, layout=layout, kernel_layout=kernel_layout, stride=stride, padding=padding, dilation=dilation,
        groups=groups, name="conv",
    )  # fmt: skip
    assert (C.dtype, C.shape) == ("int32", expected.shape)
    assert np.array_equal(reference(C, {"D": data, "W": weight}), expected)
    names = [computation.name for computation in topological(C)]
    assert names == (["conv.pad", "conv"] if np.any(padding) else ["conv"])


def test_a_layer_of_a_real_network_is_exact_at_the_extremes():
    data, weight = np.full((1, 30, 30, 64), -128, np.int8), np.full((64, 3, 3, 64), -128, np.int8)
    data[0, ::3], weight[::2] = 127, 127
    D, W = placeholder(data.shape, "int8", "D"), placeholder(weight.shape, "int8", "W")
    result = reference(conv2d(D, W, padding=1), {"D": data, "W": weight})
    assert np.array_equal(result, convolution(data, weight, (1, 1), ((1, 1), (1, 1)), (1, 1), 1))


def test_depthwise_convolution_has_one_group_per_channel():
    data, weight = int8(1, (2, 9, 8, 6)), int8(2, (12, 3, 3, 1))
    D, W = placeholder(data.shape, "int8", "D"), placeholder(weight.shape, "int8", "W")
    result = reference(conv2d(D, W, padding=1, stride=2, groups=6), {"D": data, "W": weight})
    assert np.array_equal(result, convolution(data, weight, (2, 2), ((1, 1), (1, 1)), (1, 1), 6))


@pytest.mark.parametrize("kernels", [None, 1, 3])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_depthwise_convolution_is_one_in_groups_of_a_channel(layout, kernels):
    shape = (2, 9, 8, 6)
    data, weight = int8(1, shape), int8(2, (3, 2, 6, kernels or 1))
    as_groups = weight.transpose(2, 3, 0, 1).reshape(-1, 3, 2, 1)
    expected = convolution(data, as_groups, (2, 1), ((1, 0), (2, 1)), (1, 2), 6)
    if kernels is None:
        weight = weight[..., 0]
    if layout == "NCHW":
        data, expected = data.transpose(0, 3, 1, 2), expected.transpose(0, 3, 1, 2)
    D, W = placeholder(data.shape, "int8", "D"), placeholder(weight.shape, "int8", "W")
    C = depthwise_conv2d(D, W, layout=layout, stride=(2, 1), padding=((1, 0), (2, 1)), dilation=(1, 2), name="C")
    assert (C.dtype, C.shape) == ("int32", expected.shape)
    assert np.array_equal(reference(C, {"D": data, "W": weight}), expected)
    assert [c.name for c in topological(C)] == ["C.pad", "C"]


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("int8", "int32"), ("int32", "int32")])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_equals_numpy(dtypes, transpose_b):
    make = {"int8": int8, "int32": int32}
    a, b = make[dtypes[0]](3, (7, 20)), make[dtypes[1]](4, (11, 20) if transpose_b else (20, 11))
    A, B = placeholder(a.shape, dtypes[0], "A"), placeholder(b.shape, dtypes[1], "B")
    C = matmul(A, B, transpose_b=transpose_b)
    expected = a.astype(np.int32) @ (b.T if transpose_b else b).astype(np.int32)
    assert C.dtype == "int32"
    assert np.array_equal(reference(C, {"A": a, "B": b}), expected)


def test_dense_with_and_without_bias():
    x, w, bias = int8(5, (4, 10)), int8(6, (3, 10)), int32(7, (3,))
    X, W, B = placeholder((4, 10), "int8", "X"), placeholder((3, 10), "int8", "W"), placeholder((3,), "int32", "B")
    product = x.astype(np.int32) @ w.T.astype(np.int32)
    assert np.array_equal(reference(dense(X, W), {"X": x, "W": w}), product)
    full = dense(X, W, B, name="fc")
    assert [c.name for c in topological(full)] == ["fc.product", "fc"]
    assert np.array_equal(reference(full, {"X": x, "W": w, "B": bias}), product + bias)


def test_bias_belongs_to_the_axis_named():
    d, b = int32(8, (2, 3, 4, 5)), int32(9, (3,))
    D, B = placeholder(d.shape, "int32", "D"), placeholder((3,), "int32", "B")
    assert np.array_equal(reference(bias_add(D, B, axis=1), {"D": d, "B": b}), d + b[:, None, None])
    assert np.array_equal(reference(bias_add(D, B, axis=-3), {"D": d, "B": b}), d + b[:, None, None])


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("int8", "int32"), ("int32", "int32")])
def test_addition_is_in_int32(dtypes):
    make = {"int8": int8, "int32": int32}
    a, b = make[dtypes[0]](10, (3, 5)), make[dtypes[1]](11, (3, 5))
    C = add(placeholder((3, 5), dtypes[0], "A"), placeholder((3, 5), dtypes[1], "B"))
    assert C.dtype == "int32"
    assert np.array_equal(reference(C, {"A": a, "B": b}), a.astype(np.int32) + b.astype(np.int32))


@pytest.mark.parametrize("make", [int8, int32])
def test_relu_and_clip_keep_the_dtype(make):
    d = make(12, (40,))
    D = placeholder((40,), str(d.dtype), "D")
    assert np.array_equal(reference(relu(D), {"D": d}), np.maximum(d, 0))
    result = reference(clip(D, -3, 100), {"D": d})
    assert result.dtype == d.dtype
    assert np.array_equal(result, np.clip(d, -3, 100))


@pytest.mark.parametrize("rounding", [True, False])
@pytest.mark.parametrize("shift", [0, 1, 7, 24, 31])
def test_requantisation_divides_rounds_and_saturates(shift, rounding):
    d = np.concatenate([int32(13, (500,)) // 2, np.arange(-700, 700, dtype=np.int32)])
    D = placeholder(d.shape, "int32", "D")
    wide = d.astype(np.int64)
    exact = np.floor_divide(wide + ((1 << shift) // 2 if rounding else 0), 1 << shift)
    result = reference(requantise(D, shift, rounding=rounding), {"D": d})
    assert result.dtype == np.int8
    if shift < 31 or not rounding:
        assert np.array_equal(result, np.clip(exact, -128, 127))
    positive = reference(requantise(D, shift, rounding=False, low=0), {"D": d})
    assert np.array_equal(positive, np.clip(wide >> shift, 0, 127))


def test_requantisation_wraps_when_the_rounding_addend_overflows():
    D = placeholder((2,), "int32", "D")
    result = reference(requantise(D, 31), {"D": np.array([2**31 - 1, 2**30 - 1], np.int32)})
    assert result.tolist() == [-1, 0]


def windows(data, size, stride, fill, padding):
    (top, bottom), (left, right) = padding
    data = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(data, size, axis=(1, 2))
    return view[:, :: stride[0], :: stride[1]]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_pooling_equals_numpy(draw):
    pick = draw.draw
    size = pick(st.integers(1, 4)), pick(st.integers(1, 4))
    stride = pick(st.one_of(st.none(), st.tuples(st.integers(1, 3), st.integers(1, 3))))
    padding = tuple((pick(st.integers(0, s - 1)), pick(st.integers(0, s - 1))) for s in size)
    shape = (2, size[0] + pick(st.integers(0, 4)), size[1] + pick(st.integers(0, 4)), 3)
    layout = pick(st.sampled_from(["NHWC", "NCHW"]))
    data = int8(pick(st.integers(0, 2**31)), shape)
    if pick(st.booleans()):
        data = np.where(data < 0, -128, 127).astype(np.int8)
    largest = windows(data, size, stride or size, -128, padding).max(axis=(-2, -1))
    total = windows(data, size, stride or size, 0, padding).sum(axis=(-2, -1), dtype=np.int64)
    cells = size[0] * size[1]
    average = np.floor_divide(2 * total + cells, 2 * cells)
    if layout == "NCHW":
        data, largest, average = (each.transpose(0, 3, 1, 2) for each in (data, largest, average))
    D = placeholder(data.shape, "int8", "D")
    options = {"stride": stride, "padding": padding, "layout": layout}
    assert np.array_equal(reference(max_pool2d(D, size, **options), {"D": data}), largest)
    result = reference(avg_pool2d(D, size, **options), {"D": data})
    assert result.dtype == np.int8
    assert np.array_equal(result, average)


def test_maximum_of_other_dtypes_ignores_the_padding():
    data = np.array([[-5, -7], [-9, -2]], np.int32).reshape(1, 2, 2, 1)
    D = placeholder(data.shape, "int32", "D")
    assert reference(max_pool2d(D, 2, stride=1, padding=1), {"D": data})[0, :, :, 0].tolist() == [
        [-5, -5, -7],
        [-5, -2, -2],
        [-9, -2, -2],
    ]


@pytest.mark.parametrize("cells", range(1, 93))
def test_division_in_immediates_is_exact_up_to_92_cells(cells):
    division = division_by(cells)
    sums = np.arange(-128 * cells, 127 * cells + 1, dtype=np.int64)
    scaled = (sums + division.before) * division.multiplier + division.after
    assert np.abs(scaled).max() < 2**31
    assert sorted((division.before, division.multiplier, division.after, division.offset))[-1] < 2**15
    quotient = (scaled >> division.shift) - division.offset
    assert np.array_equal(quotient, np.floor_divide(2 * sums + cells, 2 * cells))


@pytest.mark.parametrize("cells", [93, 108, 14 * 14, 28 * 28, 112 * 112])
def test_division_of_large_windows_is_off_by_one_at_most(cells):
    division = division_by(cells)
    sums = np.arange(-128 * cells, 127 * cells + 1, dtype=np.int64)
    scaled = (sums + division.before) * division.multiplier + division.after
    assert np.abs(scaled).max() < 2**31
    quotient = (scaled >> division.shift) - division.offset
    assert np.abs(quotient - np.floor_divide(2 * sums + cells, 2 * cells)).max() <= 1
    assert quotient.min() >= -128
    assert quotient.max() <= 127


def test_padding_of_every_side_and_value():
    d = int8(14, (2, 3, 4, 5))
    D = placeholder(d.shape, "int8", "D")
    padded = reference(pad2d(D, ((1, 0), (2, 3)), value=-7), {"D": d})
    assert np.array_equal(padded, np.pad(d, ((0, 0), (1, 0), (2, 3), (0, 0)), constant_values=-7))
    planar = reference(pad2d(D, (0, 2), layout="NCHW"), {"D": d})
    assert np.array_equal(planar, np.pad(d, ((0, 0), (0, 0), (0, 0), (2, 2))))
    assert np.array_equal(reference(pad2d(D, 0), {"D": d}), d)


def test_reshaping_keeps_row_major_order():
    d = int8(15, (2, 3, 4, 5))
    D = placeholder(d.shape, "int8", "D")
    assert np.array_equal(reference(flatten(D), {"D": d}), d.reshape(2, 60))
    for shape in ((6, 20), (120,), (5, 4, 3, 2), (2, 12, 5), (1, 120, 1)):
        assert np.array_equal(reference(reshape(D, shape), {"D": d}), d.reshape(shape))


def test_attributes_record_the_arguments_of_an_operator():
    D, W = placeholder((1, 9, 9, 4), "int8", "D"), placeholder((8, 3, 3, 2), "int8", "W")
    C = conv2d(D, W, stride=(1, 2), padding=(1, 0), groups=2, name="c")
    assert C.computation.attrs == {
        "operator": "conv2d",
        "layout": "NHWC",
        "kernel_layout": "OHWI",
        "stride": (1, 2),
        "padding": ((1, 1), (0, 0)),
        "dilation": (1, 1),
        "groups": 2,
        "pad_value": 0,
    }
    assert [c.attrs["operator"] for c in topological(C)] == ["pad2d", "conv2d"]
    E = depthwise_conv2d(D, placeholder((3, 3, D.shape[3]), "int8", "E"), stride=(1, 2), name="e")
    assert dict(E.computation.attrs) == {
        "operator": "depthwise_conv2d",
        "layout": "NHWC",
        "stride": (1, 2),
        "padding": ((0, 0), (0, 0)),
        "pad_value": 0,
        "dilation": (1, 1),
    }
