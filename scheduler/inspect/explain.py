"""``explain``: which emission rule of a machine takes each chunk of a schedule, or why none does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType

from lathe.configs import HardwareConfig, LatheError
from lathe.frontend import Tensor
from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.nodes import Const
from lathe.isa import EncodingError, Gemm, Instruction
from lathe.isa.required_extensions import extensions_of
from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.allocation import Buffer, box_of, live_ranges
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.allocation.temporaries import required_temporaries
from lathe.scheduler.codegen.dram_layout import DramLayout
from lathe.scheduler.codegen.driver import explain_user_layouts, footprints_of, run_stream_passes
from lathe.scheduler.codegen.emit import Emitter
from lathe.scheduler.errors import CapacityError, EmitError, ScheduleError
from lathe.scheduler.inspect.explanation import BufferUse, ChunkClass, Explanation, Pad, Refusal
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.isel.peel_conditions import decided_boxes
from lathe.scheduler.layout.layout_assignment import assign_layouts, describe_layout_conflict
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, ChunkNode, Loop, Node
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import run_pipeline_partial
from lathe.scheduler.passes.select_execution_units import explain_unit_selection
from lathe.scheduler.schedule_ir.memories import ACC, SCRATCHPADS
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.schedule_ir.sync import Marker
from lathe.scheduler.stream.elide_accumulator_init import dead_resets
from lathe.scheduler.target.target import Target

NOT_ASKED = "no rule is tried, for the reason above"
NO_TILE = "no tile fits the scratchpads, for the reason above"


def explanation_of(given: ScheduleView, machine: HardwareConfig) -> Explanation:
    """Which emission rule takes each class of chunks of a schedule on a machine, or which constraint fails first."""
    depths = tuple((scope, depth_of(machine, scope)) for scope in SCRATCHPADS)
    refusals: list[Refusal] = []
    units: dict[str, str] = {}

    def watch(name: str, schedule: ScheduleView) -> None:
        if name == "resolve-layout-conflicts":
            units.update(explain_unit_selection(schedule, Target(machine)))

    try:
        schedule, refused = run_pipeline_partial(given, machine, watch)
        refusals += [_refusal(error, schedule.by_id(stage)) for stage, error in refused.items()]
        buffers = _allocated(schedule, machine, refusals)
        emitter = _Explainer(schedule, machine, buffers, schedule.state.views, refused)
        if refusals:
            emitter.zeros = None  # buffers may overlap, or exceed their scratchpads
    except LatheError as error:  # nothing can be emitted: the chunks are those of the user's schedule
        refusals.append(_refusal(error))
        return Explanation(machine.name, depths, (), tuple(_unasked(given)), tuple(refusals))
    emitter.run(partition(build_nest(schedule, largest_blocks=True)))
    classes = emitter.classes()
    refusals += _refused_signals(emitter) if not refusals and all(each.maps for each in classes) else []
    if any(not each.maps for each in classes):
        reasons = describe_layout_conflict(schedule, machine), explain_user_layouts(schedule)
        refusals += [Refusal("EmitError", reason) for reason in reasons if reason]
    computing = {each.stage for each in classes}
    by_stage = ((f"{name}.{ACC}" if f"{name}.{ACC}" in computing else name, why) for name, why in units.items())
    uses, packed = tuple(map(_use, buffers)), tuple(_packed(given, schedule))
    return Explanation(machine.name, depths, uses, classes, tuple(refusals), tuple(by_stage), packed)


def _packed(given: ScheduleView, schedule: ScheduleView) -> Iterator[tuple[str, str]]:
    """Names of inputs whose layout the passes have changed, with the index maps that they have added."""
    for seen, layout in schedule.layouts.items():
        if seen not in given.layouts and schedule.producer(seen) is None:
            own = max(
                (len(given.layouts[each].maps) for each in layout.predecessors if each in given.layouts), default=0
            )
            yield from ((layout.tensor.name, str(each)) for each in layout.maps[own:])


def _refused_signals(emitter: Emitter) -> list[Refusal]:
    """Why tokens of manual synchronisation do not match, or would deadlock; [] if they are correct."""
    try:
        run_stream_passes(emitter, footprints_of(emitter))
    except ScheduleError as error:
        return [_refusal(error)]
    return []


def _refusal(error: LatheError, stage: StageView | None = None) -> Refusal:
    scope, excess = (error.scope, error.excess) if isinstance(error, CapacityError) else ("", 0)
    return Refusal(type(error).__name__, str(error), "" if stage is None else stage.name, scope, excess, error.kind)


def _allocated(schedule: ScheduleView, config: HardwareConfig, refusals: list[Refusal]) -> list[Buffer]:
    """The allocated buffers; if they do not fit, each is at address 0, and ``refusals`` gets the reason."""
    nest = build_nest(schedule, largest_blocks=True)
    lanes = assign_layouts(schedule, config).layouts
    physical = {stage: physical_of(stage, lanes, config) for stage in schedule.stages}
    aliases = find_aliases(schedule, config)
    try:
        return buffers_of(schedule, config, nest, physical, aliases)
    except CapacityError as error:
        refusals.append(_refusal(error))
    wanted = required_temporaries(schedule, config, place_stages(schedule), physical, aliases)
    return live_ranges(nest, aliases, physical, wanted)


def _use(buffer: Buffer) -> BufferUse:
    values = () if buffer.temporary else tuple(box_of(buffer))
    return BufferUse(
        buffer.stage.name, buffer.scope, buffer.size, buffer.slots * buffer.threads, values, buffer.temporary
    )


@dataclass
class _Tally:
    """A class of equal chunks, counted while the nest is walked."""

    chunk: Chunk
    scope: str
    rule: str
    pads: tuple[Pad, ...]
    taken: tuple[str, ...]
    constraint: str
    part: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)  # of its instructions, in the order of emission
    begun: int = 0
    extensions: set[str] = field(default_factory=set)


@dataclass
class _Unasked:
    """A class of equal chunks for which no rule was tried, counted while the nest is walked."""

    stage: StageView
    node: ChunkNode
    constraint: str
    first: tuple[tuple[str, int], ...]
    count: int = 0


class _Explainer(Emitter):
    """Emits all chunks that can be emitted, and records the result by class of chunks."""

    classes_of_chunks = False  # every chunk is emitted, not only one of each class

    def __init__(
        self,
        schedule: ScheduleView,
        config: HardwareConfig,
        buffers: list[Buffer],
        views: Mapping[Tensor, Tensor],
        refused: Mapping[StageId, LatheError],
    ) -> None:
        plan = assign_layouts(schedule, config)
        physical = {stage: physical_of(stage, plan.layouts, config) for stage in schedule.stages}
        dram = DramLayout(schedule, config, plan, {}, views)
        super().__init__(schedule, config, dram, physical, buffers, find_aliases(schedule, config))
        self.refused = refused
        self.results: dict[object, _Tally | _Unasked] = {}
        self.without_buffer: dict[StageView, str] = {}
        self.emitted = 0

    def allocate(self, node: Alloc, environment: Mapping[LoopVariable, int]) -> None:
        try:
            super().allocate(node, environment)
        except EmitError as error:
            self.without_buffer[node.placement.stage] = str(error)

    def advance_window(self, node: AdvanceWindow, environment: Mapping[LoopVariable, int]) -> None:
        if node.placement.stage not in self.without_buffer:
            super().advance_window(node, environment)

    def chunks(self, node: ChunkNode, environment: Mapping[LoopVariable, int]) -> None:
        stage = node.placement.stage
        constraint = self.without_buffer.get(stage, "")
        missing = [each for each in self.without_buffer if each.tensor in _tensors_read(stage)]
        if missing and not constraint and node.role != "init":
            constraint = f"operand {missing[0].name} has no buffer in {missing[0].state.scope}, for the reason above"
        if stage.id in self.refused:
            constraint = NO_TILE
        if not constraint:
            try:
                super().chunks(node, environment)
            except EmitError as error:  # before any rule is tried
                constraint = str(error)
        if constraint:
            extents = tuple((variable.name, extent) for variable, extent in node.loops)
            key = (stage, node.role, extents)
            first = tuple((variable.name, value) for variable, value in environment.items())
            tally = self.results.setdefault(key, _Unasked(stage, node, constraint, first))
            tally.count += 1

    def emit(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        constraint = part = ""
        instructions: list[Instruction] = []
        try:
            instructions = super().emit(rule_name, chunk)
        except EmitError as error:
            constraint = error.constraint or str(error)
            part = error.chunk if error.chunk != chunk.describe() else ""
        except EncodingError as error:
            constraint = f"operands must end within their scratchpads, which are too small: {error}"
        taken = () if constraint else tuple(self.taken)
        pads, pattern = _pads_of(chunk)
        loops = tuple((loop.name, loop.extent) for loop in chunk.loops)
        key = (chunk.stage, chunk.role, rule_name, loops, pattern, taken, not constraint)
        tally = self.results.get(key)
        if tally is None:
            scope = chunk.write.scope
            tally = self.results[key] = _Tally(chunk, scope, rule_name, pads, taken, constraint, part)
        assert isinstance(tally, _Tally)
        tally.count += 1
        tally.numbers += range(self.emitted, self.emitted + len(instructions))
        self.emitted += len(instructions)
        tally.begun += any(isinstance(each, Gemm) and each.begin for each in instructions)
        for each in instructions:
            tally.extensions.update(extensions_of(self.config, each))
        return instructions

    def classes(self) -> tuple[ChunkClass, ...]:
        """The classes of chunks, in the order of their stages."""
        order = {stage.name: number for number, stage in enumerate(self.schedule.stages)}
        elided: frozenset[int] = frozenset()
        needed: Mapping[int, str] = {}
        if self.zeros is not None and all(
            isinstance(each, _Tally) and not each.constraint for each in self.results.values()
        ):
            stream = [entry for entry, _ in self.entries if not isinstance(entry, Marker)]
            elided, needed = frozenset(dead_resets(stream, self.zeros.dead_resets())), self.zeros.live_resets
        results = [_class_of(tally, elided, needed) for tally in self.results.values()]
        return tuple(sorted(results, key=lambda each: order[each.stage]))


def _tensors_read(stage: StageView) -> set[Tensor]:
    return {read.tensor for read in stage.state.computation.reads}


def _class_of(
    tally: _Tally | _Unasked, elided: frozenset[int] = frozenset(), needed: Mapping[int, str] = MappingProxyType({})
) -> ChunkClass:
    """The class of a tally, without ``elided`` instructions; ``needed``: per live reset what reads its zeros."""
    if isinstance(tally, _Unasked):
        state, node = tally.stage.state, tally.node
        loops = tuple((variable.name, extent) for variable, extent in node.loops)
        return ChunkClass(
            tally.stage.name, state.scope, node.role, loops, tally.count, (), tally.first, "", (), 0, tally.constraint
        )
    chunk = tally.chunk
    return ChunkClass(
        chunk.stage,
        tally.scope,
        chunk.role,
        tuple((loop.name, loop.extent) for loop in chunk.loops),
        tally.count,
        tally.pads,
        tuple(chunk.offsets.items()),
        tally.rule,
        tuple((rule, len(list(same))) for rule, same in groupby(sorted(tally.taken))),
        sum(number not in elided for number in tally.numbers),
        tally.constraint,
        tally.part,
        tally.begun or (tally.count if tally.chunk.role == "init" and not elided.isdisjoint(tally.numbers) else 0),
        next((needed[number] for number in tally.numbers if number in needed), ""),
        tuple(sorted(tally.extensions)),
    )


def _pads_of(chunk: Chunk) -> tuple[tuple[Pad, ...], object]:
    """The pads around the box of a chunk that has data, () if there are several; and a key of its conditions by box."""
    if chunk.role == "init":  # the initial value of a reduction is no padding
        return (), ()
    boxes = decided_boxes(chunk)
    pattern = tuple((tuple(box), values) for box, values, _ in boxes)
    data = [box for box, _, value in boxes if not isinstance(skip_casts(value), Const)]
    constants = {each.value for _, _, value in boxes if isinstance(each := skip_casts(value), Const)}
    if len(data) > 1 or not constants:
        return (), pattern
    value = next(iter(constants)) if len(constants) == 1 else None
    extents = [loop.extent for loop in chunk.loops]
    (inside,) = data or [[(extent, extent - 1) for extent in extents]]
    return tuple(
        Pad(loop.name, first, loop.extent - 1 - last, value)
        for loop, (first, last) in zip(chunk.loops, inside, strict=True)
        if first or loop.extent - 1 - last
    ), pattern


def _unasked(schedule: ScheduleView) -> list[ChunkClass]:
    """The classes of chunks of the user's schedule, without rules."""
    results: dict[object, _Unasked] = {}

    def visit(nodes: Sequence[Node], count: int, first: dict[LoopVariable, int]) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                visit(node.body, count * (node.last - node.first + 1), {**first, node.variable: node.first})
            elif isinstance(node, ChunkNode):
                stage = node.placement.stage
                key = (stage, node.role, tuple(node.loops))
                values = tuple((variable.name, value) for variable, value in first.items())
                tally = results.setdefault(key, _Unasked(stage, node, NOT_ASKED, values))
                tally.count += count

    visit(partition(build_nest(schedule, largest_blocks=True)), 1, {})
    return [_class_of(tally) for tally in results.values()]
