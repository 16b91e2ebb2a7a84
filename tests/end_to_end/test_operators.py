"""Every operator with its parameters, compiled with the default schedule for every machine, against NumPy.

``check_program`` compares the outputs with the reference bit by bit, runs the verifier on the program, and counts
the GEMM operations.
"""

from math import prod

import pytest
from checking import Product, check_program
from machines import ALL
from programs import biased, convolved, multiplied, pointwise, requantised

import lathe as lt


@pytest.fixture(params=sorted(ALL))
def machine(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return ALL[request.param]


def image(layout: str, dtype: str = "int8", height: int = 9, width: int = 8) -> lt.Tensor:
    shape = (2, height, width, 5) if layout == "NHWC" else (2, 5, height, width)
    return lt.placeholder(shape, dtype, name="A")


# Matmuls.


@pytest.mark.sample(7)
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(16, 16, 16), (1, 40, 33), (17, 5, 3), (30, 64, 48), (4, 1, 4), (1, 1, 1)]
)
def test_matmul(rows, inner, columns, transpose_b, machine):
    output, products = multiplied(rows, inner, columns, transpose_b=transpose_b)
    check_program(output, machine, products=products)


def test_matmul_of_int32_is_done_by_the_alu(machine):
    A, B = lt.placeholder((7, 9), "int32", name="A"), lt.placeholder((9, 5), "int32", name="B")
    check_program(lt.matmul(A, B, name="C"), machine, products=[])


def test_matmul_of_a_tensor_with_itself(machine):
    A = lt.placeholder((6, 10), "int8", name="A")
    check_program(lt.matmul(A, A, transpose_b=True, name="C"), machine, products=[Product(6, 10, 6)])


def test_dense_with_bias(machine):
    data, weight = lt.placeholder((5, 30), "int8", name="data"), lt.placeholder((19, 30), "int8", name="weight")
    bias = lt.placeholder((19,), "int32", name="bias")
    products = [Product(5, 30, 19, either=True)]
    check_program(lt.dense(data, weight, bias, name="out"), machine, products=products)


def test_products_of_vectors_and_of_batches(machine):
    A, v = lt.placeholder((30, 19), "int8", name="A"), lt.placeholder((19,), "int8", name="v")
    k = lt.reduce_axis(19, "k")
    out = lt.compute((30,), lambda i: lt.sum(A[i, k].astype("int32") * v[k].astype("int32"), axis=k), "out")
    check_program(out, machine, products=[Product(1, 19, 30)])
    B, C = lt.placeholder((3, 6, 10), "int8", name="B"), lt.placeholder((3, 10, 7), "int8", name="C")
    j = lt.reduce_axis(10, "j")
    out = lt.compute(
        (3, 6, 7), lambda b, r, c: lt.sum(B[b, r, j].astype("int32") * C[b, j, c].astype("int32"), axis=j), "out"
    )
    check_program(out, machine, products=[Product(6, 10, 7, 3, either=True)])


# Convolutions.


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"padding": 1},
        {"padding": ((2, 0), (0, 1))},
        {"stride": 2, "padding": 1},
        {"stride": (1, 2)},
        {"dilation": 2, "padding": 2},
        {"dilation": (1, 2), "stride": (2, 1), "padding": (1, 0)},
        {"kernel": (5, 3), "padding": ((2, 2), (1, 1))},
        {"kernel": 1},
        {"kernel": 1, "stride": 2},
        {"images": 3, "channels": 3, "padding": 1},
        {"images": 4, "stride": 2, "padding": 1, "channels": 16},
        {"layout": "NCHW", "padding": ((1, 0), (2, 1)), "stride": 2, "dilation": 2, "height": 11, "width": 11},
    ],
    ids=str,
)
def test_conv2d(parameters, machine):
    output, products = convolved(**parameters)
    check_program(output, machine, products=products)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("channels", "outputs"), [(1, 20), (3, 20), (16, 20), (20, 20), (8, 1), (8, 3), (8, 8)])
def test_channels_of_conv2d(channels, outputs, machine):
    output, products = convolved(channels=channels, outputs=outputs, padding=1)
    check_program(output, machine, products=products)


@pytest.mark.sample(4)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kernel_layout", ["OHWI", "OIHW", "HWIO"])
def test_layouts_of_conv2d(layout, kernel_layout, machine):
    output, products = convolved(layout=layout, kernel_layout=kernel_layout, padding=1, channels=5, outputs=7)
    check_program(output, machine, products=products)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("groups", "channels", "outputs"), [(2, 8, 8), (4, 8, 24), (2, 32, 32), (2, 6, 14)])
def test_groups_of_conv2d(groups, channels, outputs, machine):
    output, products = convolved(groups=groups, channels=channels, outputs=outputs, padding=1, height=5, width=6)
    narrow = outputs // groups * 4 <= machine.block_out and channels == groups
    check_program(output, machine, products=None if narrow else products)


# Element-wise.


@pytest.mark.sample(2)
@pytest.mark.parametrize(("layout", "axis"), [("NHWC", -1), ("NCHW", 1)])
def test_a_convolution_with_bias_relu_and_requantisation(layout, axis, machine):
    def then(result):
        return lt.requantise(lt.relu(biased(axis)(result)), 8, name="q")

    output, products = convolved(layout=layout, padding=1, then=then)
    check_program(output, machine, products=products)


def test_a_convolution_with_bias_in_int32(machine):
    output, products = convolved(padding=1, then=biased())
    check_program(output, machine, products=products)


def test_clipping_at_bounds_beyond_16_bits(machine):
    output, products = convolved(then=lambda result: lt.clip(biased()(result), -70000, 100000, name="clipped"))
    check_program(output, machine, products=products)
    check_program(lt.clip(lt.placeholder((3, 50), "int32", name="A"), -300000, 5000000, name="C"), machine)
    check_program(lt.clip(lt.placeholder((3, 50), "int16", name="A"), -300, 500, name="C"), machine)


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("int32", "int32"), ("int8", "int32")])
def test_add(dtypes, machine):
    A, B = (lt.placeholder((5, 3, 21), dtype, name=name) for name, dtype in zip("AB", dtypes, strict=True))
    check_program(lt.add(A, B, name="C"), machine)


@pytest.mark.parametrize("shift", [0, 9, 17, 31])
@pytest.mark.parametrize("rounding", [False, True])
def test_requantise(shift, rounding, machine):
    data = lt.placeholder((3, 50), "int32", name="A")
    check_program(lt.requantise(data, shift, rounding=rounding, low=-100, high=50, name="q"), machine)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_relu(dtype, machine):
    check_program(lt.relu(lt.placeholder((3, 50), dtype, name="A"), name="r"), machine)


EXPRESSIONS = {
    "sub": (lambda a, b: a - b, "int32", "int32"),
    "constant minus": (lambda a, b: 100000 - (a - b), "int32", "int32"),
    "mul": (lambda a, b: a * b, "int32", "int32"),
    "shifts": (lambda a, b: (a >> 3) + (b << 5), "int32", "int32"),
    "constants beyond 16 bits": (lambda a, b: (a + 1234567) * -99999 + b * 70000, "int32", "int32"),
    "two operands that need temporaries": (lambda a, b: (a + b) * (a - b), "int32", "int32"),
    "nested": (
        lambda a, b, c, d: lt.max((a + b) * (c - d), (a - c) * (b + d)) - lt.min(a * b, c * d),
        *["int32"] * 4,
    ),
    "int8 that wraps": (lambda a, b: a + b, "int8", "int8"),
    "int8 that wraps in between": (lambda a, b: (a * b) >> 2, "int8", "int8"),
    "int8 nested": (lambda a, b: lt.max((a + b) * 3, b - a), "int8", "int8"),
    "int8 shifted left": (lambda a, b: (a << 3) + b, "int8", "int8"),
    "int16": (lambda a, b: a * b + a, "int16", "int16"),
    "int16 from int8": (lambda a, b: (a.astype("int32") * b.astype("int32")).astype("int16"), "int8", "int8"),
    "int8 from int32": (lambda a, b: (a * b).astype("int8"), "int32", "int32"),
    "negated": (lambda a, b: -a + b, "int32", "int32"),
    "shifted right by data": (lambda a, b: a >> lt.min(lt.max(b, -40), 40), "int32", "int32"),
    "shifted left by data": (lambda a, b: a << lt.min(lt.max(b, -40), 40), "int32", "int32"),
    "divided": (lambda a, b: a // 8 + b, "int32", "int32"),
    "remainder": (lambda a, b: a % 8 + b % 1024, "int32", "int32"),
    "three operands, one twice": (lambda a, b, c: a + b + c + a, "int8", "int8", "int8"),
    "uint8 and uint16": (lambda a, b: lt.max(a.astype("int32"), b.astype("int32")), "uint8", "uint16"),
    "constant": (lambda a: a * 0 + 70000, "int32"),
    "copy": (lambda a: a, "int8"),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_expressions(name, machine):
    function, *dtypes = EXPRESSIONS[name]
    check_program(pointwise(function, *dtypes), machine)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_outputs_of_every_width(dtype, machine):
    check_program(pointwise(lambda a, b: (a * b).astype(dtype), "int32", "int32"), machine)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_operands_that_are_the_same_along_an_axis(dtype, machine):
    A = lt.placeholder((5, 40), dtype, name="A")
    one, rows, columns = (lt.placeholder((n,), dtype, name=f"s{n}") for n in (1, 5, 40))
    check_program(lt.compute((5, 40), lambda i, j: A[i, j] * one[0] + one[0], "out"), machine)
    check_program(lt.compute((5, 40), lambda i, j: A[i, j] + rows[i], "out"), machine)
    check_program(lt.compute((5, 40), lambda i, j: A[i, j] + columns[j], "out"), machine)


def test_indices_that_turn_shift_and_stride(machine):
    A, B = lt.placeholder((9, 20), "int8", name="A"), lt.placeholder((20, 9), "int32", name="B")
    check_program(lt.compute((20, 9), lambda i, j: A[j, i], "out"), machine)
    check_program(lt.compute((20, 9), lambda i, j: A[j, i].astype("int32") + B[i, j], "out"), machine)
    check_program(lt.compute((4, 9), lambda i, j: A[2 * i + 1, j + 5].astype("int32"), "out"), machine)
    check_program(lt.compute((9, 20), lambda i, j: A[8 - i, j], "out"), machine)
    check_program(lt.compute((18, 40), lambda i, j: A[i // 2, j // 2], "out"), machine)


def test_conditions_on_axes(machine):
    A, B = lt.placeholder((9, 20), "int32", name="A"), lt.placeholder((9, 12), "int32", name="B")
    check_program(lt.compute((9, 20), lambda i, j: lt.select(i < 4, A[i, j], A[i, j] * 3 + 1), "out"), machine)
    check_program(lt.compute((9, 20), lambda i, j: lt.select(i % 3 == 1, A[i, j], -5), "out"), machine)
    check_program(lt.compute((18, 20), lambda i, j: lt.select(i < 9, A[i, j], A[i - 9, j] + 1), "out"), machine)
    check_program(lt.compute((9, 32), lambda i, j: lt.select(j < 20, A[i, j], B[i, j - 20]), "out"), machine)
    inside = lt.compute((9, 20), lambda i, j: lt.select((i > 1) & (j > 2), A[i, j], A[i, j] + 1), "out")
    check_program(inside, machine)


# Reductions.


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions_along_any_axis(kind, dtype, axis, machine):
    shape = (5, 6, 19)
    A = lt.placeholder(shape, dtype, name="A")
    k = lt.reduce_axis(shape[axis], "k")

    def element(i, j):
        indices = [i, j]
        indices.insert(axis, k)
        return getattr(lt, kind)(A[tuple(indices)], axis=k)

    check_program(lt.compute(shape[:axis] + shape[axis + 1 :], element, "out"), machine)


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_reductions_to_a_single_value(kind, machine):
    A = lt.placeholder((5, 19), "int8", name="A")
    k, l = lt.reduce_axis(5, "k"), lt.reduce_axis(19, "l")
    out = lt.compute((1,), lambda _: getattr(lt, kind)(A[k, l].astype("int32"), axis=(k, l)), "out")
    check_program(out, machine)


def test_a_reduction_under_a_condition(machine):
    A = lt.placeholder((9, 20), "int32", name="A")
    k = lt.reduce_axis(9, "k")
    out = lt.compute((20,), lambda i: lt.sum(lt.select(k < 4, A[k, i], 0), axis=k), "out")
    check_program(out, machine)
    out = lt.compute((20,), lambda i: lt.max(lt.select(k % 2 == 0, A[k, i], 7), axis=k), "out")
    check_program(out, machine)


# Pooling and padding.


@pytest.mark.sample(2)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("window", "parameters"),
    [(2, {}), (3, {"stride": 2, "padding": 1}), ((3, 2), {"stride": 1, "padding": ((0, 2), (1, 0))}), ((9, 8), {})],
    ids=str,
)
def test_pooling(window, parameters, layout, machine):
    check_program(lt.max_pool2d(image(layout), window, layout=layout, name="pool", **parameters), machine)
    check_program(lt.avg_pool2d(image(layout), window, layout=layout, name="pool", **parameters), machine)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_max_pool_of_wider_values(dtype, machine):
    data = image("NHWC", dtype, 6, 7)
    check_program(lt.max_pool2d(data, 2, name="pool"), machine)
    check_program(lt.max_pool2d(data, 3, stride=2, padding=1, name="pool"), machine)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("value", [0, -7])
def test_pad2d_as_output(layout, value, machine):
    check_program(lt.pad2d(image(layout), ((1, 2), (0, 3)), value=value, layout=layout, name="padded"), machine)


@pytest.mark.sample(2)
@pytest.mark.parametrize("parameters", [{"channels": 16}, {"channels": 5, "stride": 2}, {"layout": "NCHW"}], ids=str)
def test_conv2d_padded_with_a_zero_point(parameters, machine):
    output, _ = convolved(padding=1, pad_value=-77, **parameters)
    check_program(output, machine)


def test_pad2d_with_a_constant_beyond_16_bits(machine):
    check_program(lt.pad2d(image("NHWC", "int32", 4, 5), 1, value=100000, name="padded"), machine)


def test_a_border_of_constants_costs_no_copy_of_the_image(machine):
    """The interior is loaded from DRAM directly into the padded image, without a temporary in DRAM."""
    result = check_program(lt.max_pool2d(image("NHWC"), 3, stride=2, padding=1, name="pool"), machine)
    assert [segment.name for segment in result.program.segments if segment.role == "temporary"] == []


# Shapes.


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_reshapes_of_inputs(dtype, machine):
    data = lt.placeholder((2, 3, 4, 5), dtype, name="A")
    check_program(lt.flatten(data, name="out"), machine)
    check_program(lt.reshape(data, (6, 20), name="out"), machine)
    check_program(lt.reshape(data, (8, 15), name="out"), machine)
    check_program(lt.reshape(data, 120, name="out"), machine)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(30, 8), (16, 15), 240, (2, 3, 5, 8)], ids=str)
def test_reshapes_of_outputs(shape, machine):
    output, products = convolved(
        outputs=8, height=6, width=7, kernel=2, then=lambda r: lt.reshape(requantised()(r), shape, name="out")
    )
    check_program(output, machine, products=products)
    output, products = convolved(
        outputs=8, height=6, width=7, kernel=2, then=lambda r: lt.reshape(r, shape, name="out")
    )
    check_program(output, machine, products=products)


def test_arithmetic_behind_a_reshape_is_done_before_it(machine):
    def then(result):
        flat = lt.reshape(requantised()(result), (16, 15), name="flat")
        other = lt.placeholder((16, 15), "int8", name="other")
        return lt.relu(lt.add(flat, other, name="sum"), name="out")

    output, products = convolved(outputs=8, height=6, width=7, kernel=2, then=then)
    ones = Product(rows=1, inner=8, columns=8, times=30, beside=30)  # the matrix core may do the addition
    result = check_program(output, machine, products=[*products, ones])
    assert [segment.name for segment in result.program.segments if segment.role == "temporary"] == []


def test_an_output_that_is_also_read_under_another_shape(machine):
    q, products = convolved(outputs=8, height=6, width=7, kernel=2, then=requantised())
    flat = lt.reshape(q, (30, 8), name="flat")
    check_program([flat, lt.relu(q, name="r")], machine, products=products)
    check_program([q, flat], machine, products=products)


# Several outputs.


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_a_computation_of_several_outputs(dtype, machine):
    A, B = (lt.placeholder((6, 21), dtype, name=name) for name in "AB")
    both = lt.compute((6, 21), lambda i, j: (A[i, j] + B[i, j], A[i, j] - B[i, j]), "both")
    check_program(both, machine)
    product = lt.compute((6, 21), lambda i, j: both[0][i, j] * both[1][i, j], "product")
    check_program(product, machine)
    k = lt.reduce_axis(6, "k")
    check_program(lt.compute((21,), lambda j: (lt.max(A[k, j], axis=k), lt.min(A[k, j], axis=k)), "ends"), machine)


def test_several_outputs_of_one_input(machine):
    data, W, V = (lt.placeholder((n, 20), "int8", name=name) for name, n in (("data", 9), ("W", 12), ("V", 5)))
    outputs = [lt.dense(data, W, name="x"), lt.requantise(lt.dense(data, V, name="y"), 5, name="z")]
    check_program(outputs, machine, products=[Product(9, 20, n, either=True) for n in (12, 5)])


def test_an_int32_tensor_that_two_computations_read(machine):
    data, W = lt.placeholder((9, 20), "int8", name="data"), lt.placeholder((12, 20), "int8", name="W")
    c = lt.dense(data, W, name="c")
    products = [Product(9, 20, 12, either=True)] * 2  # rematerialised for the second consumer
    check_program([lt.requantise(c, 7, name="y"), lt.relu(c, name="z")], machine, products=products)
    check_program([c, lt.requantise(c, 7, name="y")], machine, products=products)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint8"])
def test_other_widths_that_are_stored_and_loaded_again(dtype, machine):
    A = lt.placeholder((9, 20), "int32", name="A")
    c = lt.compute((9, 20), lambda i, j: (A[i, j] * 3).astype(dtype), "c")
    y = lt.compute((9, 20), lambda i, j: c[i, j].astype("int32") + 1, "y")
    z = lt.compute((9, 20), lambda i, j: c[i, j].astype("int32") * 5, "z")
    check_program([y, z], machine)


def test_an_input_that_readers_need_in_several_layouts(machine):
    A, B = lt.placeholder((6, 10), "int8", name="A"), lt.placeholder((7, 10), "int8", name="B")
    c = lt.dense(A, B, name="c")
    e = lt.compute((6, 10), lambda i, j: A[i, j].astype("int32") + 1, "e")
    t = lt.compute((10, 6), lambda j, i: A[i, j].astype("int32") + 1, "t")
    check_program([c, e, t], machine, products=[Product(6, 10, 7, either=True)])


@pytest.mark.parametrize("shape", [(1, 1, 2, 5), (1, 2, 1, 5), (1, 1, 10, 10)])
@pytest.mark.parametrize("name", ["vta", "tiny", "wide", "batch4"])
def test_dense_after_flattening_images_one_pixel_wide_or_high(shape: tuple[int, ...], name: str) -> None:
    image = lt.placeholder(shape, "int8", name="image")
    weights = lt.placeholder((10, prod(shape[1:])), "int8", name="weights")
    check_program(lt.dense(lt.flatten(image), weights, name="out"), lt.load_config(name))


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_order_of_uint32_is_not_the_machines(name: str) -> None:
    values = lt.placeholder((20,), "uint32", name="values")
    result = lt.compute((20,), lambda i: lt.max(values[i], 5), name="result")
    with pytest.raises(lt.EmitError, match="dtype of an operand of max must be signed or below 32 bits, not uint32"):
        lt.build(result, [values, result], lt.load_config(name))
