"""What a schedule leaves open, filled in: the default schedule.

Stages that no command has touched are grouped (``groups``). Within a group the stored stage is tiled, everything else
is computed in its tile loops, and operands are loaded at the loop where they fit and are loaded least often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from lathe.configs import HardwareConfig, LatheError
from lathe.frontend import Axis, Tensor
from lathe.frontend.expressions import Read, axes_of
from lathe.isa import Unit
from lathe.scheduler.algorithm.patterns import factors
from lathe.scheduler.algorithm.rewrite import copy_of, reads_redirected
from lathe.scheduler.commands.write_through import keep_loops, write_through_acc
from lathe.scheduler.errors import BuildError, CapacityError, LegalityError, ScheduleError
from lathe.scheduler.legality.check import check_completed, check_reads
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.cycles import circles
from lathe.scheduler.passes.agree_on_lanes import agree_on_lanes
from lathe.scheduler.passes.compute_at_readers import settle
from lathe.scheduler.passes.fill_domains import fill_domains
from lathe.scheduler.passes.fill_padding import fill_padding
from lathe.scheduler.passes.fit_lanes import fit_lanes
from lathe.scheduler.passes.groups import Group, groups_of, is_copy
from lathe.scheduler.passes.load_once import load_once, only_moves
from lathe.scheduler.passes.mask_conditions import mask_conditions
from lathe.scheduler.passes.note_early_loads import loaded_early
from lathe.scheduler.passes.split_axes import canonicalise
from lathe.scheduler.passes.store_in_loops import can_be_kept, is_store, store_shared
from lathe.scheduler.passes.tiling.apply import apply_tiling
from lathe.scheduler.passes.tiling.choose import choose_tiling
from lathe.scheduler.passes.tiling.problem import Operand, TilingProblem
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.loops import LoopAxis
from lathe.scheduler.state.memories import DRAM
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.schedule import Part, ScheduleView, StageView
from lathe.scheduler.state.signals import unit_of_stage
from lathe.scheduler.state.stage import Attachment, StageState, initial_state
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import physical_of
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.products import Product
from lathe.scheduler.target.reused_cells import find_aliases


@dataclass
class Completed:
    """A schedule with nothing left open, the inputs that stand for reshaped ones, and the values of added ones."""

    schedule: Edit
    views: Mapping[Tensor, Tensor]
    constants: dict[Tensor, NDArray[Any]]


class Watch(Protocol):
    """Who looks at a schedule after each pass: its name, the schedule, and what the passes have added so far."""

    def __call__(self, name: str, completed: Completed) -> None: ...


def complete(
    schedule: ScheduleView,
    config: HardwareConfig,
    refused: dict[StageView, LatheError] | None = None,
    watch: Watch | None = None,
) -> Completed:
    """A copy of the schedule in which every stage has scope and place for the machine.

    Stages with a pragma, a scratchpad scope or a place of their own stay as they are. Raises CapacityError if a stage
    whose loops are given does not fit, however far inside its operands are loaded. With ``refused``, a stage that
    cannot be completed is left open and noted there with the error instead. ``watch`` is called at first and after each
    pass.
    """
    copy = Edit(schedule.state)
    done = Completed(copy, {}, {})

    def passed(name: str) -> None:
        if watch is not None:
            watch(name, done)

    passed("the commands")
    copy.amend(early=loaded_early(copy))
    read = {access.tensor for stage in copy.stages for access in stage.state.computation.reads}
    _keep_parts_near(copy, config)
    passed("keeping parts near")
    fill_domains(copy)
    _leave_out_unread(copy, read)
    passed("filling domains")
    fill_padding(copy)
    passed("filling padding")
    store_shared(copy)
    passed("storing in shared loops")
    settle(copy, config)
    passed("settling")
    fit_lanes(copy, config)
    passed("fitting lanes")
    done.views = canonicalise(copy)
    passed("canonicalising")
    done.constants.update(mask_conditions(copy, config))
    passed("masking conditions")
    done.constants.update(agree_on_lanes(copy, config))
    passed("agreeing on lanes")
    for group in groups_of(copy, config):
        try:
            with copy.trying():
                _complete_group(copy, group, config)
        except LatheError as error:
            if refused is None:
                raise
            refused.update(dict.fromkeys((*group.pads, *group.inner, group.sink), error))
    passed("tiling groups")
    loads: list[EditedStage] = []
    for stage in list(copy.stages):
        if stage.state.scope == "acc" and stage.state.pragma in (None, "gemm", "alu") and not stage.state.copies:
            loads += _load_operands(copy, stage, config)
    if copy.circular:
        load_once(copy, config, loads)
    passed("loading operands")
    check_completed(copy)
    _check_communication(copy, config)
    return done


def _leave_out_unread(schedule: Edit, read: set[Tensor]) -> None:
    """Take out, in place, stages that somebody has read and nobody does any more, as a condition that is gone did."""
    while True:
        gone = [
            stage
            for stage in schedule.stages
            if read.issuperset(stage.state.tensors)
            and not any(schedule.readers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
            and not schedule.attached(stage)
        ]
        if not gone:
            return
        schedule.arrange([stage for stage in schedule.stages if stage not in gone])


def _check_communication(schedule: Edit, config: HardwareConfig) -> None:
    """Raises BuildError where loops or units that a schedule speaks of are others now."""
    for stage in schedule.stages:
        try:
            check_communication(stage, "build")
        except ScheduleError as error:
            raise BuildError(
                f"{error} For machine {config.name!r}, stage {stage.name} is made in {stage.state.scope}: say where "
                f"with s[{stage.name}].set_scope before anything of queues.",
                kind=error.kind,
            ) from None


def _keep_parts_near(schedule: Edit, config: HardwareConfig) -> None:
    """Put in a scratchpad what is computed in the loops of other stages, in place: DRAM holds whole tensors.

    What is read after the iteration that makes it stays in DRAM, to be stored there (``store_shared``), and so does
    what the user has put there, and what is computed for a matrix product, which wants it loaded.
    """
    parts: dict[EditedStage, StageState] = {}
    for stage in schedule.stages:
        state, place = stage.state, stage.state.attachment
        if state.storage is not None and state.storage.buffer.scope == DRAM:
            continue
        if place is None or place.loops or state.scope != DRAM or set(state.tensors) & set(schedule.outputs):
            continue
        by_hand = any(signal.kind != "barrier" for signal in state.signals)
        if by_hand and unit_of_stage(stage) == Unit.STORE and can_be_kept(stage, place):
            continue  # the tokens are those of its stores
        if place.region == "missing" and (can_be_kept(stage, place) or state.pragma is not None or is_store(stage)):
            continue
        scope = _scope_near(stage, config)
        if scope == DRAM and can_be_kept(stage, place):
            continue
        parts[stage] = state
        stage.put(replace(state, scope="acc" if scope == DRAM else scope))
    if not parts or _reads_hold(schedule, set(parts)):
        return
    near = {stage: stage.state for stage in parts}
    for stage, state in parts.items():
        stage.put(state)
    for stage, state in near.items():
        stage.put(state)
        if _reads_hold(schedule, {stage}):
            continue
        place = state.attachment
        assert place is not None
        if not can_be_kept(stage, place):
            host = schedule.at(place)
            raise BuildError(
                f"place of stage {stage.name} must be a loop that all its readers are in, or a data loop of one that "
                f"is computed whole, not loop {place.axis.name} of {host.name}, for machine {config.name!r} to "
                "keep its values until they are read. Compute it at a loop further out, or leave it at the root.",
                kind="limit",
            )
        stage.put(parts[stage])


def _scope_near(stage: EditedStage, config: HardwareConfig) -> str:
    """Where the readers of a part want it: in acc, or for matrix products in inp or wgt; DRAM for those that load it.

    No instruction computes in inp and wgt: what is more than a copy is loaded.
    """
    schedule, tensor = stage.schedule, stage.tensor
    wanted: set[str] = set()
    for reader in schedule.readers(tensor):
        if reader.state.copies is tensor and reader.state.scope in ("inp", "wgt"):
            wanted.add(DRAM)
        elif any(read.tensor is tensor for read in factors(reader.state.computation) or ()):
            product = plan_lanes(schedule, config).products[reader.tensor]
            reads = () if product is None else (("inp", product.data), ("wgt", product.weight))
            wanted.update(scope for scope, read in reads if read.tensor is tensor)
        else:
            wanted.add("acc")
    if wanted <= {"acc"}:
        return "acc"
    return wanted.pop() if len(wanted) == 1 and only_moves(stage.state.computation.bodies[0]) else DRAM


def _reads_hold(schedule: Edit, moved: set[EditedStage]) -> bool:
    """Whether values are still there when they are read, with these stages in a scratchpad."""
    try:
        check_reads(schedule, "build", set(moved))
    except LegalityError:
        return False
    return True


def _complete_group(schedule: Edit, group: Group, config: HardwareConfig) -> None:
    """Scopes, caches, tiles and places of one group."""
    if len(group.sink.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in group.sink.state.tensors)
        raise BuildError(
            f"loops of stage {group.sink.name} must be left as they were made, since it has several outputs ({names}), "
            "which the machine computes one after the other. Give each a computation of its own to schedule its loops.",
            kind="limit",
        )
    given = group.sink.state
    guests = schedule.attached(group.sink)
    sink, writer = write_through_acc(schedule, group.sink)
    least_depth = max(_follow_loops(given, sink, writer, guests), keep_loops(given, sink, writer))
    computing = [*group.inner, writer]
    for stage in computing:
        stage.change(scope="acc")
    operands: list[Operand] = []
    products = plan_lanes(schedule, config).products
    for stage in computing:
        product = products[stage.tensor]
        operands.extend(_operands(schedule, stage, product, group, computing))
    loops_given = given.is_touched or bool(guests)
    problem = TilingProblem(
        schedule, config, sink, computing, operands, tuple(given.leaves), loops_given, least_depth=least_depth
    )
    _tile(problem, guests)
    _load_inside(schedule, operands)


def _load_inside(schedule: Edit, operands: list[Operand]) -> None:
    """Load what is made and stored in loops around its reader, or in its own, no further out than there.

    Nor further in than the reader is, which may run in fewer of these loops than the maker, before the rest begin.
    """
    for operand in operands:
        makers = [schedule.maker(read.tensor) for read in operand.stage.state.computation.reads]
        for maker in [maker for maker in makers if maker is not None and maker.state.scope == DRAM]:
            place = _place_around(maker.state.attachment, operand.reader)
            if place is not None and _is_further_out(operand.stage.state.attachment, place, operand.reader):
                operand.stage.change(attachment=Attachment(place.host, place.axis))


def _place_around(place: Attachment | None, reader: EditedStage) -> Attachment | None:
    """The innermost loop of a place that is one of a reader's own or around it; None where there is none."""
    around = [reader, *_hosts(reader)]
    schedule = reader.schedule
    while place is not None and schedule.at(place) not in around:
        place = schedule.at(place).state.attachment
    if place is None or schedule.at(place) is reader:
        return place
    inside = around[around.index(schedule.at(place)) - 1].state.attachment
    assert inside is not None
    return inside if _is_further_out(inside, place, reader) else place


def _hosts(stage: EditedStage) -> list[EditedStage]:
    """The stages in whose loops a stage is computed, from the innermost on."""
    return [] if stage.host is None else [stage.host, *_hosts(stage.host)]


def _is_further_out(now: Attachment | None, place: Attachment, stage: EditedStage) -> bool:
    """Whether one loop is outside another: none at all, one that comes before it, or one of a stage around."""
    host = stage.schedule.at(place)
    if now is None or now.host is not place.host:
        return now is None or stage.schedule.at(now) in _hosts(host)
    return host.state.leaves.index(now.axis) < host.state.leaves.index(place.axis)


def _follow_loops(given: StageState, sink: EditedStage, writer: EditedStage, guests: Sequence[EditedStage]) -> int:
    """Keep stages that were placed in a stage's loops there, now that these are shared by a copy and its writer.

    Those in data loops stay with the copy, those in reduction loops go to the writer, whose loops up to there come
    outermost. Returns how many loops of the copy the writer must be inside of.
    """
    depth = 0
    for guest in guests:
        place = guest.state.attachment
        assert place is not None
        if place.axis.kind == "data":
            depth = max(depth, sink.state.leaves.index(place.axis) + 1)
            continue
        leaves = writer.state.leaves
        axis = next(leaf for leaf in leaves if leaf is place.axis or _same_root(leaf, place.axis))
        reduce_leaves = [leaf for leaf in leaves if leaf.kind == "reduce"]
        outermost = reduce_leaves[: reduce_leaves.index(axis) + 1]
        ordered = (*outermost, *(leaf for leaf in leaves if leaf not in outermost))
        writer.change(leaves=ordered)
        guest.change(attachment=Attachment(writer.id, axis))
        before = given.leaves[: given.leaves.index(place.axis)]
        depth = max(depth, sum(leaf.kind == "data" for leaf in before))
    return depth


def _same_root(leaf: LoopAxis, other: LoopAxis) -> bool:
    return leaf.source is not None and leaf.source is other.source


def _tile(problem: TilingProblem, guests: Sequence[EditedStage]) -> None:
    """The cheapest tiling whose buffers do fit: the estimate counts the largest, the allocator what lives together."""
    moved = {problem.sink, *problem.computing, *guests, *(operand.stage for operand in problem.operands)}
    for stage in reversed(problem.schedule.stages):  # and what is computed in their loops: hosts come behind it
        if stage.state.attachment is not None and stage.host in moved:
            moved.add(stage)
    lanes = plan_lanes(problem.schedule, problem.config).known
    refusal: CapacityError | None = None
    before = {stage: stage.state for stage in moved}
    while True:
        try:
            apply_tiling(problem, choose_tiling(problem))
        except CapacityError:
            if refusal is not None:
                raise refusal from None
            raise
        part = Part(problem.schedule, [stage for stage in problem.schedule.stages if stage in moved])
        physical = {stage: physical_of(stage, lanes, problem.config) for stage in part.stages}
        try:
            buffers_of(part, problem.config, build_nest(part, largest_blocks=True), physical, find_aliases(part))
        except CapacityError as error:
            refusal = error
            problem.spare[error.scope] = problem.spare.get(error.scope, 0) + error.excess
            for stage, state in before.items():
                stage.put(state)
        else:
            return


def _load_operands(schedule: Edit, stage: EditedStage, config: HardwareConfig) -> list[EditedStage]:
    """Caches for what a stage in acc, placed by the user, still reads from DRAM: loaded just outside its chunks."""
    if is_copy(stage):
        return []
    state = stage.state
    place = state.attachment
    if place is not None:
        place = Attachment(place.host, place.axis)  # all that is read there, whatever part of the stage that is
    if state.pragma_axis is not None and state.leaves.index(state.pragma_axis) > 0:
        place = Attachment(stage.id, state.leaves[state.leaves.index(state.pragma_axis) - 1])
    product = plan_lanes(schedule, config).products[stage.tensor]
    operands = _operands(schedule, stage, product, Group(stage, [], []), [])
    for operand in operands:
        operand.stage.change(attachment=place)
    _load_inside(schedule, operands)
    return [operand.stage for operand in operands]


def _operands(
    schedule: Edit, stage: EditedStage, product: Product | None, group: Group, computing: list[EditedStage]
) -> list[Operand]:
    """The stages that load what a computing stage reads from DRAM: paddings of the group, or new caches."""
    made = {tensor for inner in computing for tensor in inner.state.tensors}
    operands: list[Operand] = []
    cached_as: dict[tuple[Tensor, str, tuple[object, ...]], Tensor] = {}
    circle = next((each for each in circles(schedule) if stage in each), []) if schedule.circular else []
    instead: dict[Read, Tensor] = {}
    for read in stage.state.computation.reads:
        tensor = read.tensor
        if tensor in made or schedule.scope_of(tensor) != DRAM:
            continue
        scope = "acc"
        if product is not None:
            scope = "inp" if read.node is product.data else "wgt"
        alone = any(tensor in each.state.tensors for each in circle)  # around two reads are cells not made yet
        key = tensor, scope, tuple(str(index) if alone else frozenset(axes_of(index)) for index in read.indices)
        if key in cached_as:  # what moves along other axes is another part of the tensor
            instead[read.node] = cached_as[key]
            continue
        pad = next((each for each in group.pads if tensor in each.state.tensors), None)
        if pad is not None:
            pad.change(scope=scope)
            operands.append(Operand(pad, stage))
            cached_as[key] = instead[read.node] = tensor
            continue
        axes = tuple(Axis(axis.name, axis.extent) for axis in _axes_like(tensor))
        copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.{scope}"), axes, whole=True)
        cached = schedule.new(initial_state(copy, scope, copies=tensor))
        schedule.insert(cached, before=stage)
        operands.append(Operand(cached, stage))
        cached_as[key] = instead[read.node] = cached.tensor
    if instead:
        stage.change(computation=reads_redirected(stage.state.computation, instead))
    return operands


def _axes_like(tensor: Tensor) -> tuple[Axis, ...]:
    computation = tensor.computation
    if computation is not None and computation.shape == tensor.shape:  # or else it has been given a finer shape
        return computation.axes
    return tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))
