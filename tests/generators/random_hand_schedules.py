"""Random manual schedules for matmuls and convolutions: caches, tiles, compute locations and emission rules."""

from random_programs import Choice

from lathe.configs import HardwareConfig
from lathe.configs.encoding import PAD_VALUE
from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import conv2d, matmul, requantise
from lathe.scheduler import LegalityError, Schedule, Stage, create_schedule
from lathe.scheduler.schedule_ir.loops import LoopAxis


def hand_schedules(choice: Choice, config: HardwareConfig) -> tuple[Schedule, list[str]]:
    """A convolution or matmul of which every stage is scheduled, and the primitives as text."""
    done: list[str] = []
    product = _convolution(choice, config) if choice.number(0, 1) else _product(choice)
    output = requantise(product, choice.number(0, 10), name="Q") if choice.number(0, 1) else product
    schedule = create_schedule(output)
    made = schedule.cache_write(output, "acc")
    computing = [schedule[made]]
    if output is not product:
        schedule[product].set_scope("acc")
        computing.insert(0, schedule[product])
    data, weights = (read.tensor for read in computing[0].op.reads)
    if data.computation is not None and choice.number(0, 3):
        schedule[data].set_scope("inp")
        operands = [schedule[data]]
    else:
        operands = [schedule[schedule.cache_read(data, "inp", [computing[0]])]]
    operands.append(schedule[schedule.cache_read(weights, "wgt", [computing[0]])])

    stored = schedule[output]
    outer = _tile(choice, stored, config, done)
    place = choice.pick([None, *outer])
    for stage in reversed(computing):
        _at(stage, stored, place, done)
    inner = _reduction_tile(choice, computing[0], config, done)
    for stage in operands:
        options: list[tuple[Stage, LoopAxis] | None] = [None]
        if place is not None:
            options += [(stored, axis) for axis in outer[: outer.index(place) + 1]]
        if inner is not None:
            options.append((computing[0], inner))
        chosen = choice.pick(options)
        if chosen is not None:
            _at(stage, *chosen, done)
    for stage, rule in ((operands[0], "dma"), (operands[1], "dma"), (computing[0], "gemm")):
        loops = stage.leaf_axis
        if stage is computing[0] and inner is not None:
            loops = loops[loops.index(inner) + 1 :]
        axis = choice.pick(loops[: choice.number(1, 2)])
        stage.emit_insn(axis, rule)
        done.append(f"{stage.name}.emit_insn({axis.name}, {rule})")
    return schedule, done


def _product(choice: Choice) -> Tensor:
    M, K, N = choice.number(1, 20), choice.number(1, 70), choice.number(1, 70)
    A, B = placeholder((M, K), "int8", "A"), placeholder((N, K), "int8", "B")
    return matmul(A, B, transpose_b=True, name="P")


def _convolution(choice: Choice, config: HardwareConfig) -> Tensor:
    size = (choice.number(1, 2), choice.number(3, 10), choice.number(3, 10), choice.number(1, 20))
    kernel = (choice.number(1, 20), choice.number(1, 3), choice.number(1, 3), size[3])
    D, W = placeholder(size, "int8", "D"), placeholder(kernel, "int8", "W")
    value = choice.pick([0, -128, 127, 9]) if PAD_VALUE in config.extensions else 0
    return conv2d(D, W, padding=choice.number(0, 2), stride=choice.number(1, 2), pad_value=value, name="P")


def _tile(choice: Choice, stage: Stage, config: HardwareConfig, done: list[str]) -> list[LoopAxis]:
    """Split every data loop, with the outer loops outermost in any order; the lanes by whole blocks."""
    pairs = []
    axes = stage.axis
    for position, axis in enumerate(axes):
        unit = config.block_out if position == len(axes) - 1 else config.batch if position == 0 else 1
        factor = unit * choice.number(1, 6)
        done.append(f"{stage.name}.split({axis.name}, {factor})")
        pairs.append(stage.split(axis, factor=factor))
    outer = choice.shuffled([first for first, _ in pairs])
    stage.reorder(*outer, *(second for _, second in pairs))
    done.append(f"{stage.name}.reorder({', '.join(axis.name for axis in outer)}, ...)")
    return outer


def _reduction_tile(choice: Choice, stage: Stage, config: HardwareConfig, done: list[str]) -> LoopAxis | None:
    """Perhaps split the last reduction loop by whole blocks, with the outer loop outermost."""
    if choice.number(0, 1):
        return None
    axis = stage.reduce_axis[-1]
    factor = config.block_in * choice.number(1, 3)
    outer, inner = stage.split(axis, factor=factor)
    others = [each for each in stage.leaf_axis if each not in (outer, inner)]
    stage.reorder(outer, *others, inner)
    done.append(f"{stage.name}.split({axis.name}, {factor}) outermost")
    return outer


def _at(stage: Stage, host: Stage, axis: LoopAxis | None, done: list[str]) -> None:
    if axis is None:
        return
    try:
        stage.compute_at(host, axis)
    except LegalityError:
        return  # a consumer is outside of that loop
    done.append(f"{stage.name}.compute_at({host.name}, {axis.name})")
