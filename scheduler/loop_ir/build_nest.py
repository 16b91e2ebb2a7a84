"""The loop nest of a schedule, before and after partitioning: loops, statement blocks, lifetimes of buffers."""

from collections.abc import Sequence
from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.frontend.arith.conditions import bounds_of
from lathe.frontend.arith.linear import Bound, Linear, LoopVariable, bound_variables
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.active_iterations import conditions_at, innermost_shared, may_grow
from lathe.scheduler.loop_ir.buffer_live_ranges import allocation_loops, with_buffers
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.fused_loops import shares_reduction
from lathe.scheduler.loop_ir.nodes import (
    AdvanceWindow,
    Alloc,
    Free,
    Guard,
    Loop,
    Node,
    Role,
    SignalNode,
    StatementBlock,
)
from lathe.scheduler.loop_ir.recurrences import carried_loops
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.warmup_stages import fills
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def build_nest(schedule: ScheduleView, *, largest_blocks: bool = False) -> list[Node]:
    """The symbolic nest of a whole schedule, not partitioned yet.

    A stage with a pragma becomes blocks at the pragma's loop. Without one, its block is the innermost statement, or,
    with ``largest_blocks``, everything inside the innermost loop that hosts another stage.
    """
    placed = place_stages(schedule)
    hosted: dict[LoopVariable, list[StageView]] = {}
    roots: list[StageView] = []
    for stage in schedule.stages:
        attachment = stage.state.attachment
        if attachment is None:
            roots.append(stage)
        else:
            hosted.setdefault(placed[stage].prefix[-1], []).append(stage)
    for variable in allocation_loops(schedule, placed):
        hosted.setdefault(variable, [])
    beginning: dict[LoopVariable, list[StageView]] = {}
    for stage in schedule.stages:
        for leaf in stage.state.attachment.loops if stage.state.attachment and shares_reduction(stage) else ():
            if leaf.kind == "reduce":
                beginning.setdefault(placed[stage].loops.of_leaf[leaf][0], []).append(stage)
                break
    together = innermost_shared(schedule, placed)
    nodes = _Builder(placed, hosted, beginning, together, largest_blocks).sequence(roots, [])
    return with_buffers(schedule, nodes, placed)


@dataclass(frozen=True)
class _Builder:
    placed: dict[StageView, StageRegion]
    hosted: dict[LoopVariable, list[StageView]]
    beginning: dict[LoopVariable, list[StageView]]  # stages whose sums begin outside a loop of another
    together: "set[LoopVariable]"  # innermost loops that stages run together
    largest_blocks: bool

    def sequence(self, stages: list[StageView], rest: list[Node]) -> list[Node]:
        """The nests of stages in order and then ``rest``; each buffer lives from its producer to its last reader."""
        groups: list[tuple[StageView | None, list[Node]]] = [(stage, self.stage_nodes(stage)) for stage in stages]
        groups.append((None, rest))
        own = [stage for stage in stages if _has_own_buffer(stage)]
        read = [_read(nodes) for _, nodes in groups] if own else []
        last_use: dict[StageView, int] = {}
        for stage in own:
            reading = [index for index, tensors in enumerate(read) if not tensors.isdisjoint(stage.state.tensors)]
            last_use[stage] = max(reading, default=len(groups) - 1)
        result: list[Node] = []
        for index, (producer, nodes) in enumerate(groups):
            if producer is not None and producer in last_use:
                placement = self.placed[producer]
                result.append(Alloc(placement, tuple(placement.low), tuple(placement.extent)))
            result.extend(nodes)
            result += [Free(self.placed[stage]) for stage in own if last_use[stage] == index]
        return result

    def stage_nodes(self, stage: StageView) -> list[Node]:
        placement = self.placed[stage]
        pieces: list[list[Linear]] = [[]] if placement.pieces is None else placement.pieces
        inside = [node for piece in pieces for node in self.piece_nodes(stage, piece)]
        return [*_signals(placement, None, SIGNALS_BEFORE), *inside, *_signals(placement, None, SIGNALS_BEHIND)]

    def piece_nodes(self, stage: StageView, conditions: list[Linear]) -> list[Node]:
        placement = self.placed[stage]
        window = placement.window
        slides: list[Node] = (
            [] if window is None else [AdvanceWindow(placement, tuple(window.low), tuple(window.extent))]
        )
        return slides + self.own_nodes(stage, conditions)

    def own_nodes(self, stage: StageView, conditions: list[Linear]) -> list[Node]:
        placement = self.placed[stage]
        state, variables = placement.state, placement.loops.variables
        views = [(case.roots(), [*case.constraints(), *conditions]) for case in placement.cases]
        constraints = views[0][1]
        if len(views) > 1:  # what holds in all of them
            constraints = [each for each in constraints if all(each in own for _, own in views)]
        mixed = placement.state.is_mapped and placement.loops.is_mixed()
        block_level = self.block_level(placement)
        reducing = bool(state.computation.reduce_axes)
        reductions = _reductions(placement)  # its own, not those of the loops around
        first_reduction = next((level for level, v in enumerate(variables) if v.kind == "reduce"), len(variables))
        init_level = 0 if mixed else min(first_reduction, block_level)
        if shares_reduction(stage):  # it begins outside the loops that it shares
            init_level = -1
        whole = reducing and init_level == block_level and not mixed

        def level_nodes(level: int) -> list[Node]:
            nodes: list[Node] = []
            if reducing and level == init_level and mixed:
                nodes.append(_whole_init(placement))
            elif reducing and level == init_level:
                data = [v for v in variables[level:] if v.kind == "data"]
                for roots, own in views:
                    wanted = {axis: value for axis, value in roots.items() if axis.kind == "data"}
                    remaining = [each for each in own if not bound_variables(each) & reductions]
                    nodes.append(StatementBlock(placement, "init", tuple(data), wanted, tuple(remaining), whole))
            if level == block_level:
                role: Role = "update" if reducing else "map"
                inside = tuple(variables[level:])
                nodes += [StatementBlock(placement, role, inside, roots, tuple(own), whole) for roots, own in views]
                return nodes
            variable = variables[level]
            decided = conditions_at(placement, level, constraints, self.together)
            hosted = self.hosted.get(variable, [])
            kept = [each for each in hosted if each.state.reuse]
            early = [each for each in hosted if kept and fills(each.schedule, each)]
            guards = [each for each in decided if kept and may_grow(each, variable)]
            if guards:  # iterations that fill reuse buffers and do nothing else
                decided = [each for each in decided if each not in guards]
                constraints[:] = [each for each in constraints if each not in guards]
                rest = self.sequence([each for each in hosted if each not in early], level_nodes(level + 1))
                body = self.sequence(early, [Guard(tuple(rest), tuple(guards))])
            else:
                body = self.sequence(hosted, level_nodes(level + 1))
            before, behind = (_signals(placement, variable, kinds) for kinds in (SIGNALS_BEFORE, SIGNALS_BEHIND))
            around = [self.placed[each] for each in kept if each.state.storage is None]
            nodes += [Alloc(each, *buffer_box(each)) for each in around]
            together = min(placement.threads.get(variable, 1), variable.extent)
            nodes += [block for each in self.beginning.get(variable, []) for block in self.inits(each, variable)]
            across = variable in placement.across_cores
            last = variable.extent - 1
            nodes.append(Loop(variable, 0, last, (*before, *body, *behind), tuple(decided), together, across))
            nodes += [Free(each) for each in around]
            return nodes

        return level_nodes(0)

    def inits(self, stage: StageView, variable: LoopVariable) -> list[Node]:
        """Sets the sums that a stage makes in all iterations of a loop of another stage."""
        placement = self.placed[stage]
        inside = [*placement.prefix, *placement.loops.variables]
        inside = inside[inside.index(variable) :]
        reductions, found = _reductions(placement), list[Node]()
        for case in placement.cases:
            roots = {axis: value for axis, value in case.roots().items() if axis.kind == "data"}
            constraints = [each for each in case.constraints() if not bound_variables(each) & reductions]
            own = tuple(v for v in inside if v not in reductions)
            found.append(StatementBlock(placement, "init", own, roots, tuple(constraints)))
        return found

    def block_level(self, placement: StageRegion) -> int:
        """How many of the stage's own loops are outside its blocks."""
        variables = placement.loops.variables
        emitted = {v for leaf in placement.state.emitted_leaves() for v in placement.loops.of_leaf[leaf]}
        if emitted:
            return next(level for level, v in enumerate(variables) if v in emitted)
        if not self.largest_blocks:
            return len(variables)
        kept = {v for leaf in placement.state.kept_leaves for v in placement.loops.of_leaf[leaf]}
        hosting = max((level + 1 for level, v in enumerate(variables) if v in self.hosted or v in kept), default=0)
        return max(hosting, carried_loops(placement))


def _reductions(placement: StageRegion) -> set[LoopVariable]:
    """The variables of the loops of a stage's reduction, shared ones included."""
    loops = placement.loops
    return {v for leaf, variables in loops.of_leaf.items() if leaf.kind == "reduce" for v in variables}


def _whole_init(placement: StageRegion) -> StatementBlock:
    """Sets all elements of a reduction, in loops of their own, where those that it has are of elements and updates."""
    axes = placement.state.computation.axes
    variables = tuple(LoopVariable(axis.name, axis.extent) for axis in axes)
    roots: dict[Axis, Bound] = {axis: Linear.of(variable) for axis, variable in zip(axes, variables, strict=True)}
    box = {variable: (0, variable.extent - 1) for variable in variables}
    constraints = bounds_of(placement.state.computation, roots, box)
    return StatementBlock(placement, "init", variables, roots, tuple(constraints))


SIGNALS_BEFORE, SIGNALS_BEHIND = ("barrier", "receive"), ("send",)


def _signals(placement: StageRegion, variable: LoopVariable | None, kinds: tuple[str, ...]) -> list[Node]:
    """The signals of a stage in iterations of a loop, or each time that it is computed, in order of their kinds."""
    found: list[Node] = []
    for kind in kinds:
        for signal in placement.state.signals:
            there = None if signal.axis is None else placement.loops.of_leaf[signal.axis][-1]
            if signal.kind == kind and there is variable:
                found.append(SignalNode(placement, signal))
    return found


def _has_own_buffer(stage: StageView) -> bool:
    """Whether a buffer begins with the stage and ends with its last reader."""
    return stage.state.scope != DRAM and not stage.state.reuse and stage.state.storage is None


def _read(nodes: Sequence[Node]) -> set[Tensor]:
    """The tensors that nodes read."""
    found: set[Tensor] = set()
    for node in nodes:
        if isinstance(node, Loop | Guard):
            found |= _read(node.body)
        elif isinstance(node, StatementBlock):
            found.update(read.tensor for read in node.placement.state.computation.reads)
    return found


def buffer_box(placement: StageRegion) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
    """The box of cells that a reuse buffer has: its window, but counted around along the dimension that moves."""
    window = placement.window
    assert window is not None, f"{placement.stage.name} is no reuse buffer"
    low, extent = list(window.low), list(window.extent)
    low[window.dimension], extent[window.dimension] = Linear(0), Linear(window.shape[window.dimension])
    return tuple(low), tuple(extent)
