"""Programs that VTA's compiler refuses or miscompiles, with manual schedules; sizes depend on the machine."""

from dataclasses import dataclass

import lathe as lt


@dataclass(frozen=True)
class Scheduled:
    """A program and its schedule."""

    schedule: lt.Schedule
    tensors: list[lt.Tensor]
    output: lt.Tensor


def convolution(
    cfg: lt.HardwareConfig,
    height: int,
    width: int,
    channels: int,
    outputs: int,
    tile: tuple[int, int, int],
    inner: int,
) -> Scheduled:
    """A 3×3 convolution with padding 1 in tiles of (rows, columns, output channels), ``inner`` channels at a time."""
    data = lt.placeholder((cfg.batch, height, width, channels), "int8", name="data")
    weights = lt.placeholder((outputs, 3, 3, channels), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=1, name="conv")
    padded = conv.computation.reads[0].tensor
    out = lt.requantise(conv, 8, name="out")
    s = lt.create_schedule(out)
    made, kernel = s.cache_write(out, "acc"), s.cache_read(weights, "wgt", [conv])
    n, y, x, o = s[out].axis
    (yo, yi), (xo, xi), (oo, oi) = (s[out].split(axis, factor=size) for axis, size in zip((y, x, o), tile, strict=True))
    s[out].reorder(oo, yo, xo, n, yi, xi, oi)
    s[conv].set_scope("acc")
    for tensor in (made, conv):
        s[tensor].compute_at(s[out], xo)
    ko, ki = s[conv].split("rc", factor=inner)
    s[conv].reorder(ko, *s[conv].axis, "ry", "rx", ki)
    s[padded].set_scope("inp")
    for tensor in (padded, kernel):
        s[tensor].compute_at(s[conv], ko)
        s[tensor].emit_insn(s[tensor].axis[0], "dma")
    s[conv].emit_insn(s[conv].axis[0], "gemm")
    s[made].emit_insn(s[made].axis[0], "alu")
    s[out].emit_insn(n, "dma")
    return Scheduled(s, [data, weights, out], out)


def input_channels_tiled(cfg: lt.HardwareConfig) -> Scheduled:
    return convolution(cfg, 8, 8, 4 * cfg.block_in, cfg.block_out, (4, 8, cfg.block_out), cfg.block_in)


def output_channels_tiled_with_a_partial_width(cfg: lt.HardwareConfig) -> Scheduled:
    """Three blocks of output channels in tiles of two, and 14 columns in tiles of 5."""
    return convolution(cfg, 4, 14, cfg.block_in, 3 * cfg.block_out, (4, 5, 2 * cfg.block_out), cfg.block_in)


def height_2_of_7(cfg: lt.HardwareConfig) -> Scheduled:
    return convolution(cfg, 7, 7, cfg.block_in, cfg.block_out, (2, 7, cfg.block_out), cfg.block_in)


def one_row(cfg: lt.HardwareConfig) -> Scheduled:
    return convolution(cfg, 6, 9, cfg.block_in, cfg.block_out, (1, 9, cfg.block_out), cfg.block_in)


def half_a_block_of_input_channels(cfg: lt.HardwareConfig) -> Scheduled:
    """Half a block of channels: the layout pads the other lanes with zeros."""
    half = cfg.block_in // 2
    return convolution(cfg, 6, 6, half, cfg.block_out, (3, 6, cfg.block_out), half)


def part_of_everything(cfg: lt.HardwareConfig) -> Scheduled:
    """Every tile has a tail: 7 rows by 2, 9 columns by 4, 2½ blocks of outputs and of channels by 1."""
    channels, outputs = 2 * cfg.block_in + cfg.block_in // 2, 2 * cfg.block_out + cfg.block_out // 2
    return convolution(cfg, 7, 9, channels, outputs, (2, 4, cfg.block_out), cfg.block_in)


def dense_with_tiled_outputs(cfg: lt.HardwareConfig) -> Scheduled:
    """5½ blocks of outputs in tiles of two; 2½ blocks of inputs in tiles of one."""
    inputs, outputs = 2 * cfg.block_in + cfg.block_in // 2, 5 * cfg.block_out + cfg.block_out // 2
    data = lt.placeholder((2 * cfg.batch, inputs), "int8", name="data")
    weights = lt.placeholder((outputs, inputs), "int8", name="weights")
    product = lt.dense(data, weights, name="product")
    out = lt.requantise(product, 7, name="out")
    s = lt.create_schedule(out)
    made, kernel, rows = s.cache_write(out, "acc"), s.cache_read(weights, "wgt"), s.cache_read(data, "inp")
    i, j = s[out].axis
    jo, ji = s[out].split(j, factor=2 * cfg.block_out)
    s[out].reorder(jo, i, ji)
    s[product].set_scope("acc")
    for tensor in (made, product):
        s[tensor].compute_at(s[out], jo)
    ko, ki = s[product].split("k", factor=cfg.block_in)
    s[product].reorder(ko, *s[product].axis, ki)
    for tensor in (kernel, rows):
        s[tensor].compute_at(s[product], ko)
        s[tensor].emit_insn(s[tensor].axis[0], "dma")
    s[product].emit_insn(s[product].axis[0], "gemm")
    s[made].emit_insn(s[made].axis[0], "alu")
    s[out].emit_insn(i, "dma")
    return Scheduled(s, [data, weights, out], out)


def element_wise(cfg: lt.HardwareConfig, inputs: list[lt.Tensor], out: lt.Tensor) -> Scheduled:
    """An element-wise program of (rows, columns): seven vectors of rows in tiles of five."""
    s = lt.create_schedule(out)
    made = s.cache_write(out, "acc")
    copies = [s.cache_read(tensor, "acc") for tensor in inputs]
    io, ii = s[out].split(s[out].axis[0], factor=5 * cfg.batch)
    for tensor in (made, *copies):
        s[tensor].compute_at(s[out], io)
        s[tensor].emit_insn(s[tensor].axis[0], "dma" if tensor in copies else "alu")
    s[out].emit_insn(ii, "dma")
    return Scheduled(s, [*inputs, out], out)


def matrices(cfg: lt.HardwareConfig, dtype: str, *names: str) -> list[lt.Tensor]:
    """Inputs of seven vectors of rows and 2½ blocks of columns."""
    shape = (7 * cfg.batch, 2 * cfg.block_out + cfg.block_out // 2)
    return [lt.placeholder(shape, dtype, name=name) for name in names]


def addition_of_bytes(cfg: lt.HardwareConfig) -> Scheduled:
    A, B = inputs = matrices(cfg, "int8", "A", "B")
    return element_wise(
        cfg, inputs, lt.compute(A.shape, lambda i, j: A[i, j].astype("int32") + B[i, j].astype("int32"), name="out")
    )


def subtraction(cfg: lt.HardwareConfig) -> Scheduled:
    A, B = inputs = matrices(cfg, "int32", "A", "B")
    return element_wise(cfg, inputs, lt.compute(A.shape, lambda i, j: A[i, j] - B[i, j], name="out"))


def subtraction_from_a_constant(cfg: lt.HardwareConfig) -> Scheduled:
    (A,) = inputs = matrices(cfg, "int32", "A")
    return element_wise(cfg, inputs, lt.compute(A.shape, lambda i, j: 100_000 - A[i, j], name="out"))


def wide_immediate(cfg: lt.HardwareConfig) -> Scheduled:
    """VTA truncates 40000 to 16 bits, −25536, so that the result is −100."""
    (A,) = inputs = matrices(cfg, "int32", "A")
    return element_wise(cfg, inputs, lt.compute(A.shape, lambda i, j: lt.min(A[i, j], 40000) >> 8, name="out"))


def wider_immediates(cfg: lt.HardwareConfig) -> Scheduled:
    """Additions, factors and bounds of more than 16 bits, of either sign."""
    (A,) = inputs = matrices(cfg, "int32", "A")
    return element_wise(
        cfg,
        inputs,
        lt.compute(
            A.shape,
            lambda i, j: lt.max(lt.min((A[i, j] + 1_234_567_890) * -98_765, 0x7FFF_FF00), -2_000_000_000) - 40_000,
            name="out",
        ),
    )


def pad_of_another_value(cfg: lt.HardwareConfig) -> Scheduled:
    """A border of −7, 1 row above and 2 below, in tiles of 4 rows."""
    data = lt.placeholder((7, 2 * cfg.block_out), "int8", name="data")
    out = lt.compute(
        (10, 2 * cfg.block_out), lambda y, c: lt.select((y >= 1) & (y < 8), data[y - 1, c], -7), name="out"
    )
    s = lt.create_schedule(out)
    made = s.cache_write(out, "acc")
    yo, yi = s[out].split("y", factor=4)
    s[made].compute_at(s[out], yo)
    s[made].emit_insn(s[made].axis[0], "dma")
    s[out].emit_insn(yi, "dma")
    return Scheduled(s, [data, out], out)


def maximum_with_a_border(cfg: lt.HardwareConfig) -> Scheduled:
    """A maximum over windows needs a border of the smallest value, not of zeros."""
    data = lt.placeholder((cfg.batch, 6, 6, cfg.block_out), "int8", name="data")
    padded = lt.pad2d(data, 1, value=-128, name="padded")
    ry, rx = lt.reduce_axis(3, name="ry"), lt.reduce_axis(3, name="rx")
    out = lt.compute(data.shape, lambda n, y, x, c: lt.max(padded[n, y + ry, x + rx, c], axis=[ry, rx]), name="out")
    s = lt.create_schedule(out)
    made = s.cache_write(out, "acc")
    yo, yi = s[out].split("y", factor=4)
    s[padded].set_scope("acc")
    for tensor in (made, padded):
        s[tensor].compute_at(s[out], yo)
    s[padded].emit_insn(s[padded].axis[0], "dma")
    s[made].emit_insn(s[made].axis[0], "alu")
    s[out].emit_insn(yi, "dma")
    return Scheduled(s, [data, out], out)


def square_of_a_sum(cfg: lt.HardwareConfig) -> Scheduled:
    (A,) = inputs = matrices(cfg, "int32", "A")
    return element_wise(cfg, inputs, lt.compute(A.shape, lambda i, j: (A[i, j] + 1) * (A[i, j] + 1), name="out"))


def shared_subexpressions(cfg: lt.HardwareConfig) -> Scheduled:
    """A sum that is used three times, and a product of it that is used twice."""
    A, B = inputs = matrices(cfg, "int32", "A", "B")

    def element(i, j):
        return lt.max((A[i, j] + B[i, j]) * A[i, j], 5) + lt.min((A[i, j] + B[i, j]) * A[i, j], A[i, j] + B[i, j])

    return element_wise(cfg, inputs, lt.compute(A.shape, element, name="out"))


PROGRAMS = [
    input_channels_tiled,
    output_channels_tiled_with_a_partial_width,
    height_2_of_7,
    one_row,
    half_a_block_of_input_channels,
    part_of_everything,
    dense_with_tiled_outputs,
    addition_of_bytes,
    subtraction,
    subtraction_from_a_constant,
    wide_immediate,
    wider_immediates,
    pad_of_another_value,
    maximum_with_a_border,
    square_of_a_sum,
    shared_subexpressions,
]
