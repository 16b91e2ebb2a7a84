"""Networks of several layers, and layers of the sizes of real networks, with the default schedule."""

import numpy as np
import pytest
from checking import Product, check_program
from machines import ALL, SHIPPED
from programs import biased, convolved, multiplied, requantised

import lathe as lt
from lathe.networks.digits.network import digits_network

# With a batch, stored vectors can only be loaded as inputs if block_in equals block_out.
CHAINING = sorted(name for name, config in ALL.items() if config.batch == 1 or config.block_in == config.block_out)


@pytest.fixture(params=CHAINING)
def machine(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return ALL[request.param]


def test_matmul_of_256_takes_each_product_once():
    output, products = multiplied(256, 256, 256, transpose_b=True)
    result = check_program(output, ALL["vta"], products=products)
    assert result.counters.gemm_operations == 256 * 16 * 16
    loaded = result.counters.bytes_read
    assert loaded["inp"] + loaded["wgt"] <= 3 * 256 * 256, "one of the two stays, the other is loaded twice at most"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vta", "wide"])
def test_a_convolution_of_56_by_56_by_64_takes_each_product_once(name):
    output, products = convolved(height=56, width=56, channels=64, outputs=64, padding=1)
    config = ALL[name]
    result = check_program(output, config, products=products)
    assert result.counters.gemm_operations == (56 * 3 - 2) ** 2 * (64 // config.block_in) * (64 // config.block_out)
    assert result.counters.bytes_read["wgt"] == 64 * 64 * 9


@pytest.mark.slow
def test_a_convolution_of_stride_2_and_a_first_layer():
    output, products = convolved(
        height=56, width=56, channels=64, outputs=128, stride=2, padding=1, then=requantised(9)
    )
    check_program(output, ALL["vta"], products=products)
    output, products = convolved(
        height=112, width=112, channels=3, outputs=32, kernel=7, stride=2, padding=3, then=requantised(9, low=0)
    )
    check_program(output, ALL["vta"], products=products)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_digits_network(name):
    network = digits_network(4)
    check_program(network.logits, SHIPPED[name], constants=network.constants)


def test_two_dense_layers(machine):
    data, W = lt.placeholder((3, 30), "int8", name="data"), lt.placeholder((19, 30), "int8", name="W")
    V, bias = lt.placeholder((7, 19), "int8", name="V"), lt.placeholder((19,), "int32", name="bias")
    hidden = lt.requantise(lt.relu(lt.dense(data, W, bias, name="h")), 7, name="q")
    check_program(lt.dense(hidden, V, name="out"), machine)


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("channels", [8, 12, 20])
def test_convolutions_pooling_and_a_dense_layer(layout, channels, machine):
    axis = -1 if layout == "NHWC" else 1

    def then(result):
        first = lt.requantise(lt.relu(biased(axis)(result)), 8, name="q1")
        pooled = lt.max_pool2d(first, 2, layout=layout, name="pool")
        order = (6, 3, 3, channels) if layout == "NHWC" else (6, channels, 3, 3)
        second = lt.conv2d(
            pooled, lt.placeholder(order, "int8", name="W2"), padding=1, layout=layout, stride=2, name="conv2"
        )
        flat = lt.flatten(lt.requantise(second, 8, low=0, name="q2"), name="flat")
        return lt.dense(flat, lt.placeholder((10, flat.shape[1]), "int8", name="V"), name="logits")

    output, _ = convolved(channels=3, outputs=channels, padding=1, layout=layout, height=8, width=10, then=then)
    check_program(output, machine)


def test_a_residual_block(machine):
    """A convolution, with padding, and the addition read the image."""

    def then(result):
        first = lt.requantise(lt.relu(result, name="relu1"), 8, name="q1")
        second = lt.conv2d(first, lt.placeholder((8, 3, 3, 8), "int8", name="W2"), padding=1, name="conv2")
        return lt.requantise(lt.relu(lt.add(second, first, name="sum")), 7, name="out")

    output, products = convolved(outputs=8, padding=1, height=6, width=7, then=then)
    check_program(output, machine, products=[*products, Product(1, 8, 8, 9 * 42, beside=9 * 42 - 16 * 19)])


def test_a_residual_block_that_adds_its_input(machine):
    data = lt.placeholder((1, 6, 7, 8), "int8", name="data")
    weight = lt.placeholder((8, 3, 3, 8), "int8", name="weight")
    conv = lt.conv2d(data, weight, padding=1, name="conv")
    output = lt.requantise(lt.add(conv, data, name="sum"), 7, name="out")
    check_program(output, machine, products=[Product(1, 8, 8, 9 * 42, beside=9 * 42 - 16 * 19)])


def test_a_residual_block_in_int32(machine):
    """The sum of a matmul and of an int32 tensor whose requantised values are the matmul's input."""
    data, W = lt.placeholder((9, 20), "int8", name="data"), lt.placeholder((12, 20), "int8", name="W")
    V = lt.placeholder((12, 12), "int8", name="V")
    wide = lt.dense(data, W, name="wide")
    narrow = lt.requantise(wide, 7, name="narrow")
    check_program(lt.add(lt.dense(narrow, V, name="d"), wide, name="out"), machine)


def test_an_inverted_bottleneck(machine):
    """Pointwise up, depthwise, pointwise down, and the addition of the input."""
    data = lt.placeholder((1, 5, 6, 8), "int8", name="data")
    up = lt.conv2d(data, lt.placeholder((16, 1, 1, 8), "int8", name="W1"), name="up")
    up8 = lt.requantise(up, 6, low=0, name="up8")
    deep = lt.conv2d(up8, lt.placeholder((16, 3, 3, 1), "int8", name="W2"), padding=1, groups=16, name="deep")
    deep8 = lt.requantise(deep, 6, low=0, name="deep8")
    down = lt.conv2d(deep8, lt.placeholder((8, 1, 1, 16), "int8", name="W3"), name="down")
    check_program(lt.requantise(lt.add(down, data, name="sum"), 6, name="out"), machine)


def test_grouped_convolutions_in_a_row(machine):
    data = lt.placeholder((1, 5, 6, 8), "int8", name="data")
    first = lt.conv2d(data, lt.placeholder((16, 3, 3, 4), "int8", name="W1"), padding=1, groups=2, name="first")
    q = lt.requantise(first, 7, name="q")
    second = lt.conv2d(q, lt.placeholder((16, 1, 1, 8), "int8", name="W2"), groups=2, name="second")
    check_program(lt.requantise(second, 7, name="out"), machine)


def test_a_global_average_and_a_classifier(machine):
    def then(result):
        pooled = lt.avg_pool2d(requantised()(result), (6, 7), name="pool")
        flat = lt.flatten(pooled, name="flat")
        return lt.dense(flat, lt.placeholder((10, flat.shape[1]), "int8", name="V"), name="logits")

    output, _ = convolved(outputs=12, padding=1, height=6, width=7, then=then)
    check_program(output, machine)


def test_pooling_with_a_border_between_convolutions(machine):
    def then(result):
        pooled = lt.max_pool2d(requantised()(result), 3, stride=2, padding=1, name="pool")
        weight = lt.placeholder((8, 3, 3, 16), "int8", name="W2")
        return lt.conv2d(pooled, weight, padding=((1, 0), (0, 1)), name="out")

    output, _ = convolved(padding=1, then=then)
    check_program(output, machine)


def test_weights_that_are_part_of_the_program():
    generator = np.random.default_rng(7)
    output, products = convolved(padding=1, then=requantised())
    weight = generator.integers(-128, 128, (16, 3, 3, 8), np.int8)
    result = check_program(output, ALL["vta"], products=products, constants={"weight": weight})
    assert [segment.name for segment in result.program.inputs] == ["data"]


def test_lanes_that_no_load_regroups(machine):
    """With a batch, a row of a wider vector would be spread over several stored vectors."""
    data, W = lt.placeholder((3, 30), "int8", name="data"), lt.placeholder((19, 30), "int8", name="W")
    hidden = lt.requantise(lt.dense(data, W, name="h"), 7, name="q")
    check_program(lt.dense(hidden, lt.placeholder((7, 19), "int8", name="V"), name="out"), machine)


def test_a_tensor_that_is_turned_round(machine):
    """The stored vector layout has channels as lanes, but the maximum reduces over them."""
    data, W = lt.placeholder((4, 20), "int8", name="data"), lt.placeholder((12, 20), "int8", name="W")
    logits = lt.requantise(lt.dense(data, W, name="d"), 7, name="logits")
    k = lt.reduce_axis(12, "k")
    check_program(lt.compute((4,), lambda i: lt.max(logits[i, k], axis=k), "largest"), machine)


@pytest.mark.parametrize("inner", [10, 16, 33])
def test_weights_that_are_computed(machine, inner):
    A, B = lt.placeholder((6, inner), "int8", name="A"), lt.placeholder((37, inner), "int8", name="B")
    check_program(lt.dense(lt.relu(A, name="a"), lt.relu(B, name="b"), name="out"), machine)


def test_attention(machine):
    """Matmuls of computed matrices, one of them transposed."""
    x = lt.placeholder((10, 24), "int8", name="x")
    q, k, v = (
        lt.requantise(lt.dense(x, lt.placeholder((16, 24), "int8", name=f"W{n}"), name=f"{n}.sum"), 8, name=n)
        for n in "qkv"
    )
    scores = lt.requantise(lt.matmul(q, k, transpose_b=True, name="qk"), 9, name="scores")
    check_program(lt.matmul(scores, v, name="mixed"), machine)


def test_matrices_multiplied_one_after_the_other(machine):
    """On a machine with a batch, rows of the first matmul are also rows of the second."""
    X, B = lt.placeholder((8, 20), "int8", name="X"), lt.placeholder((20, 12), "int8", name="B")
    hidden = lt.requantise(lt.matmul(X, B, name="first"), 8, name="hidden")
    check_program(lt.matmul(hidden, lt.placeholder((12, 9), "int8", name="D"), name="second"), machine)
