"""More programs for faults of the compiler, with features that the programs of the other faults do not use.

Padding with other values, conditions, recurrences, manual layouts, int32 values that are read twice, tails,
evicted micro-ops, blocks of several sizes.
"""

from typing import Any

import lathe as lt
from mutations.programs import CONFIG, Recipe, blur, convolution, layer, pointwise, product, tiles, two_layers


def pooled_with_padding() -> lt.Tensor:
    return lt.max_pool2d(lt.placeholder((1, 6, 5, 4), "int8", name="data"), 3, stride=2, padding=1, name="pool")


def triangle() -> lt.Tensor:
    A = lt.placeholder((9, 9), "int8", name="A")
    k = lt.reduce_axis(9, "k")
    return lt.compute(
        (9, 9), lambda i, j: lt.sum(A[i, k].astype("int32") * A[j, k].astype("int32"), axis=k, where=k <= i), "T"
    )


def diagonal() -> lt.Tensor:
    A, B = lt.placeholder((6, 7), "int8", name="A"), lt.placeholder((6, 7), "int8", name="B")
    return lt.compute((6, 7), lambda i, j: lt.select(j <= i, A[i, j], B[i, j]), "D")


def running_sum() -> lt.Tensor:
    X = lt.placeholder((7, 6), "int8", name="X")
    R = lt.state((7, 6), "int32", name="R")
    return lt.define(R, lambda t, j: lt.select(t > 0, R[t - 1, j], 0) + X[t, j].astype("int32"))


def twice_read() -> list[lt.Tensor]:
    A = lt.placeholder((4, 10), "int32", name="A")
    B = lt.compute(A.shape, lambda i, j: A[i, j] * 3, "B")
    return [B, lt.compute(A.shape, lambda i, j: lt.max(B[i, j], A[i, j]), "C")]


def transposed() -> lt.Tensor:
    A = lt.placeholder((6, 12), "int8", name="A")
    B = lt.compute((6, 12), lambda i, j: A[i, j] + 1, "B")
    return lt.compute((12, 6), lambda j, i: B[i, j] - 3, "C")


def flattened() -> lt.Tensor:
    data = lt.placeholder((2, 3, 4), "int8", name="data")
    weight = lt.placeholder((5, 12), "int8", name="weight")
    return lt.requantise(lt.dense(lt.flatten(lt.relu(data)), weight, name="out"), 5, name="q")


def depthwise() -> lt.Tensor:
    data = lt.placeholder((1, 5, 4, 11), "int8", name="data")
    return lt.requantise(lt.depthwise_conv2d(data, lt.placeholder((2, 3, 11), "int8", name="weight")), 5, name="q")


def least() -> lt.Tensor:
    A = lt.placeholder((5, 8, 3), "int32", name="A")
    k = lt.reduce_axis(3, "k")
    return lt.compute((5, 8), lambda i, j: lt.min(A[i, j, k], axis=k), "M")


def blocked(s: lt.Schedule, outputs: Any) -> None:
    """Inputs and outputs in manual layouts."""
    (D,) = outputs
    C = D.computation.reads[0].tensor
    A = C.computation.reads[0].tensor
    s.transform_layout(A, lambda i, k: [k // 4, i, k % 4])
    s.transform_layout(D, lambda i, j: [j, i])


def in_acc(s: lt.Schedule, outputs: Any) -> None:
    """A chain of stages in acc, computed in the loops of the last."""
    B, C = outputs
    made = s.cache_write(C, "acc")
    row = s[C].axis[0]
    s[made].compute_at(s[C], row)


def mirrored() -> lt.Tensor:
    A = lt.placeholder((8, 6), "int8", name="A")
    B = lt.compute((8, 6), lambda i, j: A[i, j] + 1, "B")
    return lt.compute((8, 6), lambda i, j: B[7 - i, j] - B[i, j], "C")


def narrow_sum() -> lt.Tensor:
    A, k = lt.placeholder((6, 5, 8), "int8", name="A"), lt.reduce_axis(5, "k")
    return lt.compute((6, 8), lambda i, j: lt.sum(A[i, k, j], axis=k), "S")


def average() -> lt.Tensor:
    return lt.avg_pool2d(lt.placeholder((1, 6, 6, 5), "int8", name="data"), 2, name="pool")


def pooled_in_tiles() -> lt.Tensor:
    return lt.max_pool2d(lt.placeholder((1, 24, 24, 4), "int8", name="data"), 3, stride=1, padding=1, name="pool")


def spread_pixels() -> lt.Tensor:
    """A transposed convolution, whose tiles begin at pixels and between them."""
    data, weight = (
        lt.placeholder((1, 9, 7, 6), "int8", name="data"),
        lt.placeholder((5, 3, 3, 6), "int8", name="weight"),
    )
    spread = lt.compute(
        (1, 17, 13, 6),
        lambda n, y, x, c: lt.select((y % 2 == 0) & (x % 2 == 0), data[n, y // 2, x // 2, c], 0),
        name="spread",
    )
    return lt.requantise(lt.conv2d(spread, weight, name="conv"), 6, name="q")


def two_convolutions() -> lt.Tensor:
    data, first = (
        lt.placeholder((1, 5, 4, 12), "int8", name="data"),
        lt.placeholder((20, 1, 1, 12), "int8", name="first"),
    )
    between = lt.requantise(lt.conv2d(data, first, name="a"), 6, name="between")
    return lt.requantise(
        lt.conv2d(between, lt.placeholder((12, 1, 1, 20), "int8", name="second"), name="b"), 6, name="q"
    )


def two_products() -> lt.Tensor:
    shapes = zip("ABCD", ((32, 16), (32, 16), (32, 16), (32, 16)), strict=True)
    A, B, C, D = (lt.placeholder(shape, "int8", name=name) for name, shape in shapes)
    P, Q = lt.matmul(A, B, transpose_b=True, name="P"), lt.matmul(C, D, transpose_b=True, name="Q")
    return lt.requantise(lt.compute(P.shape, lambda i, j: P[i, j] + Q[i, j], "S"), 6, name="R")


def panels(s: lt.Schedule, outputs: Any) -> None:
    """Double buffers at two loops: rows of one factor stay for a row of tiles, each with its own rows of the other."""
    (R,) = outputs
    S = R.computation.reads[0].tensor
    P, Q = (read.tensor for read in S.computation.reads)
    made = s.cache_write(R, "acc")
    copies = [
        s.cache_read(read.tensor, memory, [product])
        for product in (P, Q)
        for read, memory in zip(product.computation.reads, ("inp", "wgt"), strict=True)
    ]
    y, x = s[R].axis
    rows, row = s[R].split(y, factor=8)
    columns, column = s[R].split(x, factor=8)
    s[R].reorder(rows, columns, row, column)
    for tensor in (S, P, Q):
        s[tensor].set_scope("acc")
    for tensor in (made, S, P, Q):
        s[tensor].compute_at(s[R], columns)
    for number, tensor in enumerate(copies):
        s[tensor].compute_at(s[R], columns if number else rows)
        s[tensor].double_buffer(2)


def rescaled_layers() -> lt.Tensor:
    """Convolutions with parameters per channel, whose weights and micro-ops exceed the scratchpads."""
    made = lt.placeholder((1, 14, 14, 48), "int8", name="data")
    for number in range(3):
        weights = lt.placeholder((48, 3, 3, 48), "int8", name=f"weights{number}")
        parameters = lt.placeholder((48, 2), "int32", name=f"parameters{number}")
        sums = lt.conv2d(made, weights, padding=1, name=f"conv{number}")
        made = lt.requantise(sums, parameters=parameters, name=f"layer{number}")
    return made


SMALL_RESCALING = lt.load_config("lathe16").with_(
    name="small rescaling", uop_buffer_bytes=256, wgt_buffer_bytes=16384, inp_buffer_bytes=2048, acc_buffer_bytes=16384,
    par_buffer_bytes=1024,
)  # fmt: skip
FEW_MICRO_OPS = CONFIG.with_(name="few micro-ops", uop_buffer_bytes=64)
LEAST_MICRO_OPS = CONFIG.with_(name="least micro-ops", uop_buffer_bytes=32)
WIDE_OUTPUTS = CONFIG.with_(name="wide outputs", block_out=8)
WIDE_INPUTS = CONFIG.with_(name="wide inputs", block_in=2 * CONFIG.block_out)
BATCHES = CONFIG.with_(name="batches", batch=2)
TURNED = CONFIG.with_(name="turned", batch=2, block_out=8)
FEW_BEGIN = CONFIG.with_(name="few begin", uop_buffer_bytes=16, extensions=("gemm_begin",))
BEGINS = CONFIG.with_(name="begins", extensions=("gemm_begin",))

MORE_RECIPES = (
    Recipe("pooling with padding", pooled_with_padding),
    Recipe("pooling with padding in tiles", pooled_in_tiles),
    Recipe("transposed convolution", spread_pixels),
    Recipe("two convolutions of turned elements", two_convolutions, config=TURNED),
    Recipe("sum of two products in panels", two_products, panels),
    Recipe("blur with few micro-ops", blur, config=LEAST_MICRO_OPS),
    Recipe("triangle", triangle),
    Recipe("diagonal", diagonal),
    Recipe("running sum", running_sum),
    Recipe("read twice", twice_read),
    Recipe("read twice in acc", twice_read, in_acc),
    Recipe("transposed", transposed),
    Recipe("flattened", flattened),
    Recipe("least", least),
    Recipe("product in layouts", product(6, 20, 24, shift=6), blocked),
    Recipe("convolution of many channels", convolution(8, 8, 24, 20, padding=1)),
    Recipe("product of large tiles", product(40, 48, 56, shift=7), tiles()),
    Recipe("average", average),
    Recipe("differences", pointwise(lambda a, b, c: (a - b) * (b - c) - (a - b), "int32", "int32", "int32")),
    Recipe("product with few micro-ops", product(12, 28, 24, shift=6), tiles(), config=FEW_MICRO_OPS),
    Recipe("convolution with few micro-ops", convolution(6, 5, 8, 8, padding=1), config=FEW_MICRO_OPS),
    Recipe("average with few micro-ops", average, config=FEW_MICRO_OPS),
    Recipe("two layers with wide inputs", two_layers, config=WIDE_INPUTS),
    Recipe("product of batches", product(9, 30, 19), config=BATCHES),
    Recipe("layer of batches", layer, config=BATCHES),
    Recipe("squares", pointwise(lambda a, b: ((a + b) >> 1) * ((a + b) >> 1) - (a + b), "int32", "int32")),
    Recipe("cut to 8 bits", pointwise(lambda a: lt.max(a.astype("int8").astype("int32") * 3, -9), "int32")),
    Recipe("mirrored", mirrored),
    Recipe("sum in 8 bits", narrow_sum),
    Recipe("convolution that begins sums", convolution(6, 5, 8, 8, padding=1), config=BEGINS),
    Recipe("convolution that begins sums, with few micro-ops", convolution(6, 5, 8, 8, padding=1), config=FEW_BEGIN),
    Recipe("product of one row that begins sums", product(1, 64, 4), config=BEGINS),
    Recipe("average where sums may begin", average, config=BEGINS),
    Recipe("depthwise", depthwise),
    Recipe("depthwise with wide inputs", depthwise, config=WIDE_INPUTS),
    Recipe("depthwise with wide outputs", depthwise, config=WIDE_OUTPUTS),
    Recipe("rescaled layers", rescaled_layers, config=SMALL_RESCALING),
    Recipe("narrow sums", pointwise(lambda a, b: (a + b) >> 1, "int8", "int8")),
)
