"""The autotuner's search space: for each fusion group, tilings as steps of a schedule, ranked by the cost model.

The compiler's passes determine the groups. A group is in the search space if the user has scheduled none of its stages
and no pass has rewritten them: only then can primitives express its tilings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lathe.autotune.primitive_trace import Loop, Step
from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor
from lathe.scheduler import Schedule
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.passes.tile_and_fuse import TileAndFuse, derated
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.stage import StageId, StageState
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.problem import LoadedOperand, Tiling, TilingProblem
from lathe.scheduler.tiling.search import cheapest_tilings


@dataclass(frozen=True)
class TiledGroup:
    """A fusion group by the name of its stored stage, and its tilings as steps, cheapest first, with their costs."""

    name: str
    tilings: tuple[tuple[Step, ...], ...]
    estimates: tuple[float, ...]


def tiled_groups(schedule: Schedule, config: HardwareConfig, count: int) -> list[TiledGroup]:
    """Up to ``count`` tilings for each group in the search space. Raises what the passes before tiling raise."""
    groups: list[TiledGroup] = []

    def add_group(problem: TilingProblem) -> None:
        if not problem.has_user_loops and _is_expressible(schedule, lowered, problem):
            tilings = cheapest_tilings(derated(problem), count) or cheapest_tilings(problem, count)
            steps = tuple(_steps(problem, tiling) for tiling in tilings)
            groups.append(TiledGroup(problem.sink.name, steps, tuple(each.cost for each in tilings)))

    edit, target = Edit(schedule.state), Target(config)
    lowered: dict[StageId, StageState] = {}
    for each in PASSES:
        if each.name == "tile-and-fuse":
            lowered.update((stage.id, stage.state) for stage in edit.stages)
            TileAndFuse(callback=add_group)(edit, target)
            break
        each.run(edit, target)
    return groups


def _is_expressible(given: Schedule, lowered: Mapping[StageId, StageState], problem: TilingProblem) -> bool:
    """Whether primitives can express the group's tilings: its stages are the user's, or copies that primitives make.

    ``lowered``: the stages after the passes before tiling.
    """
    before = {stage.id: stage for stage in given.stages}
    names = [stage.name for stage in given.stages]
    known = {name for stage in given.stages for name in (stage.name, *(t.name for t in stage.state.tensors))}
    known |= {read.tensor.name for stage in given.stages for read in stage.state.computation.reads}
    *inner, _ = problem.computing
    pads = [operand.stage for operand in problem.operands if operand.stage.state.copy_of is None]
    copies = {
        operand.stage.tensor.name: each.name for operand in problem.operands if (each := operand.stage.state.copy_of)
    }
    for stage in (problem.sink, *inner, *pads):
        mine, now = before.get(stage.id), lowered.get(stage.id)
        if mine is None or now is None or names.count(mine.name) != 1 or not is_unscheduled(mine):
            return False
        if (
            not _same_loops_and_reads(now.computation, mine.state.computation, copies)
            or now.vector_layout is not None
            or len(now.tensors) > 1
        ):
            return False
    return all(name in known for name in copies.values())


def _same_loops_and_reads(one: Computation, other: Computation, copies: Mapping[str, str]) -> bool:
    """Whether two computations have the same loops and read the same tensors; constants may have been folded.

    ``copies``: the original of each copy that ``one`` reads, by name.
    """
    axes = [[(axis.name, axis.extent) for axis in (*each.axes, *each.reduce_axes)] for each in (one, other)]
    reads = [{copies.get(read.tensor.name, read.tensor.name) for read in each.reads} for each in (one, other)]
    return axes[0] == axes[1] and reads[0] == reads[1]


def _steps(problem: TilingProblem, tiling: Tiling) -> tuple[Step, ...]:
    """A tiling as steps, equal to what ``apply_tiling`` does."""
    sink, (*inner, writer) = problem.sink.name, problem.computing
    steps = [Step("cache_write", sink, ACC, makes=writer.name)]
    steps += [Step("set_scope", stage.name, ACC) for stage in inner]
    for operand in problem.operands:
        steps.append(_load_step(operand))
    axes = range(len(tiling.tile))
    steps += [Step("split", sink, loops=(Loop("data", n),), factor=tiling.tile[n]) for n in axes]
    outer = [Loop("data", n, "outer") for n in tiling.order]
    steps.append(Step("reorder", sink, loops=(*outer, *(Loop("data", n, "inner") for n in axes))))
    inside = (writer, *reversed(inner))  # consumers before producers
    steps += [Step("compute_at", stage.name, enclosing=sink, loops=(outer[-1],)) for stage in inside]
    outermost: dict[EditedStage, Loop] = {}
    for stage in problem.computing:
        axis = tiling.reduce_axis.get(stage)
        if axis is None:
            continue
        cut = [(axis, tiling.reduce_tile[stage]), *tiling.other_reduce_tiles.get(stage, ())]
        numbers = [_number(stage, root) for root, _ in cut]
        steps += [
            Step("split", stage.name, loops=(Loop("reduce", n),), factor=size)
            for n, (_, size) in zip(numbers, cut, strict=True)
        ]
        steps.append(Step("reorder", stage.name, loops=_order(stage, numbers)))
        outermost[stage] = Loop("reduce", numbers[0], "outer")
    for operand in problem.operands:
        level = tiling.level[operand.stage]
        reader = operand.only_consumer
        if level == len(outer) and reader is not None and reader in outermost:
            steps.append(Step("compute_at", operand.stage.name, enclosing=reader.name, loops=(outermost[reader],)))
        elif level:
            steps.append(
                Step("compute_at", operand.stage.name, enclosing=sink, loops=(outer[min(level, len(outer)) - 1],))
            )
    return tuple(steps)


def _load_step(operand: LoadedOperand) -> Step:
    """The step that puts an operand in its scratchpad."""
    stage = operand.stage
    readers = tuple(reader.name for reader in operand.consumers)
    if stage.state.copy_of is None:
        return Step("set_scope", stage.name, stage.state.scope)
    source = stage.state.copy_of
    return Step(
        "cache_read", source.name, stage.state.scope, readers, makes=stage.name, gathered=_gathered(stage, source)
    )


def _gathered(stage: EditedStage, source: Tensor) -> tuple[int, ...]:
    """The dimensions of a tensor in which a copy gathers only some indices, as numbered in the user's program.

    In an input that a pass has converted from space to depth, such a dimension has become two.
    """
    layout = stage.schedule.layouts.get(source)
    if layout is None or not layout.maps or layout.predecessors[-1].ndim == source.ndim:
        return tuple(dim for dim, extent in enumerate(source.shape) if extent != stage.tensor.shape[dim])
    axes = [digit.axis for digit in layout.maps[-1].digits]
    return tuple(axis for axis in dict.fromkeys(axes) if axes.count(axis) > 1)


def _number(stage: EditedStage, root: LoopAxis) -> int:
    return [each for each in stage.state.roots if each.kind == "reduce"].index(root)


def _order(stage: EditedStage, cut: Sequence[int]) -> tuple[Loop, ...]:
    """The loop order of a stage with split reductions: the last one split is outermost, as in ``apply_tiling``."""
    data = [Loop("data", n) for n, _ in enumerate(stage.state.computation.axes)]
    reduce = [Loop("reduce", n, "inner" if n in cut else "") for n, _ in enumerate(stage.state.computation.reduce_axes)]
    return (*(Loop("reduce", n, "outer") for n in reversed(cut)), *data, *reduce)
