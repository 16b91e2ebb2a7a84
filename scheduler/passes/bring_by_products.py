"""What a rescaled addition reads besides a product, brought to the accumulators by the matrix core.

The compute unit loads accumulators itself, and stands still meanwhile. The matrix core reads what has been loaded while
it did other things: a product with ones on the diagonals copies an element in one step. So a residual of 8 bits takes
that way where it is shorter::

    sum[n, y, x, c] = rescaled(conv[n, y, x, c], residual[n, y, x, c])

    brought[n, y, x, c] = sum over k in 0..1 of residual[n, y, x, c] * ones[k, c]
    sum[n, y, x, c] = rescaled(conv[n, y, x, c], brought[n, y, x, c])
"""

from dataclasses import replace

import numpy as np

from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.indices.plain import kept, plain_axis
from lathe.frontend.nodes import AxisRef, Binary, Cast, Read, Reduce
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.rewrite import transform
from lathe.scheduler.passes.merge_reshapes import is_untouched
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.memories import DATA, DRAM, NEAR
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.stage import initial_state
from lathe.scheduler.target.element import element_of, loaded_bytes
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.rescaling import missing_extension, rescaling_of
from lathe.scheduler.target.target import Target


def bring_by_products(schedule: Edit, target: Target) -> None:
    """Put a product with ones before additions of rescaled products, in place, where that takes fewer cycles."""
    ones: dict[int, Tensor] = {}
    for stage in list(schedule.stages):
        read = _brought(schedule, stage, target)
        if read is None:
            continue
        channels = read.tensor.shape[-1]
        if channels not in ones:
            ones[channels] = Tensor(f"ones.{channels}", (1, channels), "int8")
        _insert(schedule, stage, read, ones[channels])
    added = {tensor: np.ones(tensor.shape, np.int8) for tensor in ones.values()}
    schedule.amend(constants={**schedule.state.constants, **added})


def _brought(schedule: Edit, stage: EditedStage, target: Target) -> Read | None:
    """The operand of a rescaled addition that the matrix core had better bring."""
    rescaling = rescaling_of(stage.state.computation)
    if rescaling is None or len(rescaling.terms) < 2 or not is_untouched(stage):
        return None
    if missing_extension(rescaling, target.config) is not None:
        return None
    products = plan_lanes(schedule, target.config).products
    reads = [term.data for term in rescaling.terms]
    for read, other in (reads, reads[::-1]):
        maker = schedule.maker(other.tensor)
        made_here = maker is not None and products[other.tensor] is not None and is_untouched(maker)
        alone = schedule.readers(other.tensor) == [stage] and other.tensor not in schedule.outputs
        if not (made_here and alone and _is_plain(stage, other) and _is_plain(stage, read)):
            continue
        if read.dtype == "int8" and schedule.scope_of(read.tensor) == DRAM and _is_stored(schedule, stage, read):
            return read if _is_shorter(target) else None
    return None


def _is_plain(stage: EditedStage, read: Read) -> bool:
    axes = stage.state.computation.axes
    return len(axes) == len(read.indices) and all(
        plain_axis(index) is axis for index, axis in zip(read.indices, axes, strict=True)
    )


def _is_stored(schedule: Edit, stage: EditedStage, read: Read) -> bool:
    """Whether a tensor comes from DRAM: it is an input, or others than the stage want it there."""
    maker = schedule.maker(read.tensor)
    return maker is None or read.tensor in schedule.outputs or schedule.readers(read.tensor) != [stage]


def _is_shorter(target: Target) -> bool:
    """Whether a step for each element takes less than a load of it, for which the compute unit waits."""
    config = target.config
    steps = -(-element_of(config, NEAR).cols // element_of(config, DATA).cols)
    resets = 0 if GEMM_BEGIN in config.extensions else 1
    load = loaded_bytes(config, NEAR, "int8") * config.memory.cycles_per_beat / config.bus_bytes
    return steps + resets <= load


def _insert(schedule: Edit, stage: EditedStage, read: Read, ones: Tensor) -> None:
    """Let a stage read the product of what it reads with ones."""
    axes = tuple(Axis(axis.name, axis.extent) for axis in stage.state.computation.axes)
    inner = Axis("k", 1, 0, "reduce")
    points: tuple[Expr, ...] = tuple(AxisRef(axis) for axis in axes)
    data, one = Read(read.tensor, points), Read(ones, (AxisRef(inner), points[-1]))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(one, "int32")), (inner,))
    total = Computation(fresh_name(schedule, f"{read.tensor.name}.brought"), axes, (inner,), (body,))
    schedule.insert(initial_state(total), before=stage)
    instead = Read(total.outputs[0], read.indices)

    def leaf(node: Expr) -> Expr | None:
        return instead if isinstance(node, Cast) and node.dtype == "int32" and kept(node) is read else None

    computation = stage.state.computation
    bodies = tuple(transform(each, leaf) for each in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))
