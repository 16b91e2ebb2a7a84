"""Builds the loop nest of a schedule: loops, statement blocks, and where buffers are allocated and freed."""

from collections.abc import Sequence
from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.frontend.arith.conditions import bounds_of
from lathe.frontend.arith.linear import Bound, Linear, LoopVariable, bound_variables
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.active_iterations import conditions_at, innermost_fused, may_grow
from lathe.scheduler.loop_ir.buffer_live_ranges import allocation_loops, with_buffers
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.fused_loops import fuses_reduction
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, Free, Guard, Loop, Node, Role, StatementBlock, SyncNode
from lathe.scheduler.loop_ir.recurrences import carried_loops
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.warmup_stages import runs_in_warmup
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


def build_nest(schedule: ScheduleView, *, largest_blocks: bool = False) -> list[Node]:
    """The symbolic nest of a whole schedule, not partitioned yet.

    A stage with a pragma becomes blocks at the pragma's loop. Without one, its block is the innermost statement, or,
    with ``largest_blocks``, everything inside the innermost loop in which another stage is computed.
    """
    placed = place_stages(schedule)
    attached: dict[LoopVariable, list[StageView]] = {}
    roots: list[StageView] = []
    for stage in schedule.stages:
        attachment = stage.state.attachment
        if attachment is None:
            roots.append(stage)
        else:
            attached.setdefault(placed[stage].prefix[-1], []).append(stage)
    for variable in allocation_loops(schedule, placed):
        attached.setdefault(variable, [])
    inits_before: dict[LoopVariable, list[StageView]] = {}
    for stage in schedule.stages:
        for leaf in stage.state.attachment.loops if stage.state.attachment and fuses_reduction(stage) else ():
            if leaf.kind == "reduce":
                inits_before.setdefault(placed[stage].loops.of_leaf[leaf][0], []).append(stage)
                break
    fused = innermost_fused(schedule, placed)
    nodes = _Builder(placed, attached, inits_before, fused, largest_blocks).sequence(roots, [])
    return with_buffers(schedule, nodes, placed)


@dataclass(frozen=True)
class _Builder:
    placed: dict[StageView, StageRegion]
    attached: dict[LoopVariable, list[StageView]]
    inits_before: dict[LoopVariable, list[StageView]]  # fused stages whose reductions are initialised before a loop
    fused: "set[LoopVariable]"  # innermost fused loops
    largest_blocks: bool

    def sequence(self, stages: list[StageView], rest: list[Node]) -> list[Node]:
        """The nests of stages in order, then ``rest``; a buffer is live from its producer to its last consumer."""
        groups: list[tuple[StageView | None, list[Node]]] = [(stage, self.stage_nodes(stage)) for stage in stages]
        groups.append((None, rest))
        buffered = [stage for stage in stages if _has_own_buffer(stage)]
        read = [_read(nodes) for _, nodes in groups] if buffered else []
        last_use: dict[StageView, int] = {}
        for stage in buffered:
            uses = [index for index, tensors in enumerate(read) if not tensors.isdisjoint(stage.state.tensors)]
            last_use[stage] = max(uses, default=len(groups) - 1)
        result: list[Node] = []
        for index, (producer, nodes) in enumerate(groups):
            if producer is not None and producer in last_use:
                placement = self.placed[producer]
                result.append(Alloc(placement, tuple(placement.low), tuple(placement.extent)))
            result.extend(nodes)
            result += [Free(self.placed[stage]) for stage in buffered if last_use[stage] == index]
        return result

    def stage_nodes(self, stage: StageView) -> list[Node]:
        placement = self.placed[stage]
        pieces: list[list[Linear]] = [[]] if placement.pieces is None else placement.pieces
        inside = [node for piece in pieces for node in self.piece_nodes(stage, piece)]
        return [*_signals(placement, None, SIGNALS_BEFORE), *inside, *_signals(placement, None, SIGNALS_AFTER)]

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
        cases = [(case.roots(), [*case.constraints(), *conditions]) for case in placement.cases]
        constraints = cases[0][1]
        if len(cases) > 1:  # those that all cases share
            constraints = [each for each in constraints if all(each in own for _, own in cases)]
        mixed = placement.state.has_affine_schedule and placement.loops.is_mixed()
        block_level = self.block_level(placement)
        reducing = bool(state.computation.reduce_axes)
        reductions = _reductions(placement)  # its own, not those of enclosing stages
        first_reduction = next((level for level, v in enumerate(variables) if v.kind == "reduce"), len(variables))
        init_level = 0 if mixed else min(first_reduction, block_level)
        if fuses_reduction(stage):  # it is initialised outside the fused loops
            init_level = -1
        whole = reducing and init_level == block_level and not mixed

        def level_nodes(level: int) -> list[Node]:
            nodes: list[Node] = []
            if reducing and level == init_level and mixed:
                nodes.append(_whole_init(placement))
            elif reducing and level == init_level:
                data = [v for v in variables[level:] if v.kind == "data"]
                for roots, own in cases:
                    data_roots = {axis: value for axis, value in roots.items() if axis.kind == "data"}
                    remaining = [each for each in own if not bound_variables(each) & reductions]
                    nodes.append(StatementBlock(placement, "init", tuple(data), data_roots, tuple(remaining), whole))
            if level == block_level:
                role: Role = "update" if reducing else "map"
                inside = tuple(variables[level:])
                nodes += [StatementBlock(placement, role, inside, roots, tuple(own), whole) for roots, own in cases]
                return nodes
            variable = variables[level]
            conditions_here = conditions_at(placement, level, constraints, self.fused)
            attached = self.attached.get(variable, [])
            reused = [each for each in attached if each.state.reuse]
            warmup = [each for each in attached if reused and runs_in_warmup(each.schedule, each)]
            guards = [each for each in conditions_here if reused and may_grow(each, variable)]
            if guards:  # warm-up iterations, which only fill reuse buffers
                conditions_here = [each for each in conditions_here if each not in guards]
                constraints[:] = [each for each in constraints if each not in guards]
                rest = self.sequence([each for each in attached if each not in warmup], level_nodes(level + 1))
                body = self.sequence(warmup, [Guard(tuple(rest), tuple(guards))])
            else:
                body = self.sequence(attached, level_nodes(level + 1))
            before, after = (_signals(placement, variable, kinds) for kinds in (SIGNALS_BEFORE, SIGNALS_AFTER))
            buffers = [self.placed[each] for each in reused if each.state.storage is None]
            nodes += [Alloc(each, *buffer_box(each)) for each in buffers]
            threads = min(placement.threads.get(variable, 1), variable.extent)
            nodes += [block for each in self.inits_before.get(variable, []) for block in self.inits(each, variable)]
            across = variable in placement.across_cores
            last = variable.extent - 1
            nodes.append(Loop(variable, 0, last, (*before, *body, *after), tuple(conditions_here), threads, across))
            nodes += [Free(each) for each in buffers]
            return nodes

        return level_nodes(0)

    def inits(self, stage: StageView, variable: LoopVariable) -> list[Node]:
        """Blocks that initialise a stage's reduction before a loop of another stage that it is fused with."""
        placement = self.placed[stage]
        inside = [*placement.prefix, *placement.loops.variables]
        inside = inside[inside.index(variable) :]
        reductions, blocks = _reductions(placement), list[Node]()
        for case in placement.cases:
            roots = {axis: value for axis, value in case.roots().items() if axis.kind == "data"}
            constraints = [each for each in case.constraints() if not bound_variables(each) & reductions]
            own = tuple(v for v in inside if v not in reductions)
            blocks.append(StatementBlock(placement, "init", own, roots, tuple(constraints)))
        return blocks

    def block_level(self, placement: StageRegion) -> int:
        """How many of the stage's own loops are outside its blocks."""
        variables = placement.loops.variables
        emitted = {v for leaf in placement.state.emitted_leaves() for v in placement.loops.of_leaf[leaf]}
        if emitted:
            return next(level for level, v in enumerate(variables) if v in emitted)
        if not self.largest_blocks:
            return len(variables)
        kept = {v for leaf in placement.state.synchronised_leaves for v in placement.loops.of_leaf[leaf]}
        outer = max((level + 1 for level, v in enumerate(variables) if v in self.attached or v in kept), default=0)
        return max(outer, carried_loops(placement))


def _reductions(placement: StageRegion) -> set[LoopVariable]:
    """The variables of the loops of a stage's reduction, fused ones included."""
    loops = placement.loops
    return {v for leaf, variables in loops.of_leaf.items() if leaf.kind == "reduce" for v in variables}


def _whole_init(placement: StageRegion) -> StatementBlock:
    """Initialises a whole reduction in separate loops, for a stage whose loops mix data and reduction axes."""
    axes = placement.state.computation.axes
    variables = tuple(LoopVariable(axis.name, axis.extent) for axis in axes)
    roots: dict[Axis, Bound] = {axis: Linear.of(variable) for axis, variable in zip(axes, variables, strict=True)}
    box = {variable: (0, variable.extent - 1) for variable in variables}
    constraints = bounds_of(placement.state.computation, roots, box)
    return StatementBlock(placement, "init", variables, roots, tuple(constraints))


SIGNALS_BEFORE, SIGNALS_AFTER = ("barrier", "receive"), ("send",)


def _signals(placement: StageRegion, variable: LoopVariable | None, kinds: tuple[str, ...]) -> list[Node]:
    """The stage's synchronisation in each iteration of a loop (None: around the stage), in the order of ``kinds``."""
    nodes: list[Node] = []
    for kind in kinds:
        for signal in placement.state.sync_ops:
            loop = None if signal.axis is None else placement.loops.of_leaf[signal.axis][-1]
            if signal.kind == kind and loop is variable:
                nodes.append(SyncNode(placement, signal))
    return nodes


def _has_own_buffer(stage: StageView) -> bool:
    """Whether the stage has a buffer that is live from the stage to its last consumer."""
    return stage.state.scope != DRAM and not stage.state.reuse and stage.state.storage is None


def _read(nodes: Sequence[Node]) -> set[Tensor]:
    """The tensors that nodes read."""
    tensors: set[Tensor] = set()
    for node in nodes:
        if isinstance(node, Loop | Guard):
            tensors |= _read(node.body)
        elif isinstance(node, StatementBlock):
            tensors.update(read.tensor for read in node.placement.state.computation.reads)
    return tensors


def buffer_box(placement: StageRegion) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
    """The box of cells of a reuse buffer: its window, with the dimension that moves counted from 0 as in a ring."""
    window = placement.window
    assert window is not None, f"{placement.stage.name} is no reuse buffer"
    low, extent = list(window.low), list(window.extent)
    low[window.dimension], extent[window.dimension] = Linear(0), Linear(window.shape[window.dimension])
    return tuple(low), tuple(extent)
