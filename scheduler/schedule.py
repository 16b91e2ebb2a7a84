"""A schedule: the stages of a program, in which order, nesting and memory they are computed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, overload

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor, topological
from lathe.frontend.programs import as_outputs
from lathe.scheduler.commands.barrier_at import barrier_at
from lathe.scheduler.commands.cache import cache_read, cache_write
from lathe.scheduler.commands.copy_at import copy_at
from lathe.scheduler.commands.host_copies import device_to_host, host_to_device
from lathe.scheduler.commands.merge_adjacent import merge_adjacent
from lathe.scheduler.commands.remove_dead_stores import remove_dead_stores
from lathe.scheduler.commands.reuse_at import reuse_at
from lathe.scheduler.commands.store_in import allocate_at, buffer
from lathe.scheduler.commands.transform_layout import transform_layout
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.history import Recording, record_commands, start_recording
from lathe.scheduler.legality.dependences import dependences
from lathe.scheduler.legality.padding_needs import padding_needed, solve_padding
from lathe.scheduler.nest.cycles import circles, run_together
from lathe.scheduler.nest.leads import without_idle_leads
from lathe.scheduler.reports.counts import count
from lathe.scheduler.reports.explanation import Explanation
from lathe.scheduler.reports.questions import is_legal, is_parallel, parallel_skew, smallest_shift
from lathe.scheduler.stage import Stage
from lathe.scheduler.state.layout import TensorLayout
from lathe.scheduler.state.stage import DRAM, Attachment, LoopAxis, StageState, initial_state, placed_alike, replace
from lathe.scheduler.state.storage import StorageBuffer

if TYPE_CHECKING:
    from lathe.scheduler.nest.place import Placement

T = TypeVar("T")


class Schedule:
    """The order in which the values of ``outputs`` are computed; ``s[C]`` is the stage that computes tensor ``C``.

    A new schedule computes stage after stage, each over its whole domain, all in DRAM. Commands (methods of the
    stages, and ``cache_read`` and ``cache_write``) change that; each checks that every read still finds its value.
    """

    early: "frozenset[Stage]" = frozenset()  # where completed for a machine: see ``early_loads``
    recording: Recording | None = None  # the commands so far, where the program has parameters that are not bound
    replaying: bool = False  # whether commands are carried out again with numbers for parameters: see ``Recording``
    last_placed: "tuple[list[tuple[Stage, StageState]], dict[Stage, Placement]] | None" = None  # see ``place_stages``

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        self.program = tuple(outputs)  # as the user names them; a transformed layout puts others into ``outputs``
        self.outputs = self.program
        self.layouts: dict[Tensor, TensorLayout] = {}  # by the tensor that stands for one of another layout
        self.host_copies: tuple[tuple[str, Tensor], ...] = ()  # steps at the program's edge that the user speaks of
        self.allocations: dict[StorageBuffer, Attachment] = {}  # buffers that live within one iteration of a loop
        self.stages: list[Stage] = [Stage(self, initial_state(each)) for each in topological(self.outputs)]
        self.circular = bool(circles(self))  # whether stages need each other's earlier values, or their own
        if self.circular:
            run_together(self)
        self.recording = start_recording(self)

    def __getitem__(self, tensor: Tensor | Computation | Stage) -> Stage:
        """The stage of a tensor or computation. Raises ScheduleError if the schedule has none."""
        tensor = self.current(tensor)
        for stage in self.stages:
            state = stage.state
            if stage is tensor or tensor in state.tensors or state.computation is tensor:
                return stage
        for stage in self.stages:
            if isinstance(tensor, Computation) and any(each.computation is tensor for each in stage.state.tensors):
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        if not isinstance(tensor, Tensor | Computation | Stage):
            raise ScheduleError(
                f"stage of the schedule must be asked for by its tensor, as in s[C], not by {tensor!r}. Its stages are "
                f"{names}.",
                kind="argument",
            )
        raise ScheduleError(
            f"stage of the schedule must be one of {names}, not {tensor.name!r}. Inputs have no stage: cache them with "
            "s.cache_read to place them.",
            kind="argument",
        )

    barrier_at = barrier_at
    buffer = buffer
    allocate_at = allocate_at
    cache_read = cache_read
    cache_write = cache_write
    copy_at = copy_at
    host_to_device = host_to_device
    device_to_host = device_to_host
    transform_layout = transform_layout
    merge_adjacent = merge_adjacent
    remove_dead_stores = remove_dead_stores
    padding_needed = padding_needed
    solve_padding = solve_padding

    @overload
    def current(self, tensor: Tensor) -> Tensor: ...

    @overload
    def current(self, tensor: T) -> T | Tensor: ...

    def current(self, tensor: object) -> object:
        """The tensor that stands for the given one (or its computation) since its layout has been transformed."""
        for seen, layout in self.layouts.items():
            if tensor is not None and any(tensor is each or tensor is each.computation for each in layout.earlier):
                return seen
        return tensor

    def layout(self, tensor: Tensor) -> TensorLayout:
        """How the elements of a tensor are laid out: row-major, unless ``transform_layout`` says otherwise."""
        seen = self.current(tensor)
        if not isinstance(seen, Tensor) or (self.maker(seen) is None and not self.readers(seen)):
            name = getattr(tensor, "name", tensor)
            raise ScheduleError(
                f"tensor of layout must be one that the program reads or computes, not {name!r}.", kind="argument"
            )
        return self.layouts.get(seen, TensorLayout(seen))

    reuse_at = reuse_at
    dependences = dependences
    is_parallel = is_parallel
    is_legal = is_legal
    count = count
    smallest_shift = smallest_shift
    parallel_skew = parallel_skew

    def explain(
        self, config: HardwareConfig | None = None, *, parameters: Mapping[str, int] | None = None
    ) -> Explanation:
        """Which rule takes each class of chunks on a machine, or which constraint fails first: ``lathe.explain``.

        ``config`` is the machine, ``load_config("vta")`` unless given. Raises BuildError if it is none.
        """
        from lathe.scheduler.reports.explain import explain  # which completes schedules

        return explain(self, config, parameters=parameters)

    def readers(self, tensor: Tensor) -> list[Stage]:
        """The stages that read the tensor, in order."""
        return [s for s in self.stages if any(read.tensor is tensor for read in s.state.computation.reads)]

    def maker(self, tensor: Tensor) -> Stage | None:
        """The stage that computes the tensor; None for an input."""
        return next((stage for stage in self.stages if tensor in stage.state.tensors), None)

    def scope_of(self, tensor: Tensor) -> str:
        """The memory in which the tensor is."""
        maker = self.maker(tensor)
        return DRAM if maker is None else maker.state.scope

    def attached(self, stage: Stage) -> list[Stage]:
        """The stages that are computed in a loop of ``stage``, in order."""
        return [s for s in self.stages if s.state.attachment and s.state.attachment.stage is stage]

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A command made of several leaves everything as it was when one of them is refused."""
        stages, states = list(self.stages), {stage: stage.state for stage in self.stages}
        allocations, layouts, outputs = self.allocations, self.layouts, self.outputs
        try:
            yield
        except BaseException:
            self.stages, self.allocations, self.layouts, self.outputs = stages, allocations, layouts, outputs
            for stage, state in states.items():
                stage.state = state
            raise

    def commit(
        self,
        changes: Mapping[Stage, StageState],
        command: str,
        *,
        renamed: Mapping[LoopAxis, LoopAxis] | None = None,
        stages: list[Stage] | None = None,
        allocations: Mapping[StorageBuffer, Attachment] | None = None,
    ) -> None:
        """Put new states (lists of stages, allocations) in place if the whole is legal, else leave all as it was.

        ``renamed`` says which loop now stands for a loop that the command has replaced, for stages computed there.
        """
        from lathe.scheduler.legality.check import check_schedule

        before = {stage: stage.state for stage in (*self.stages, *changes)}
        before_stages, before_allocations = self.stages, self.allocations
        try:
            if stages is not None:
                self.stages = stages
            if allocations is not None:
                self.allocations = dict(allocations)
            for stage, state in changes.items():
                stage.state = state
            for stage in self.stages:
                attachment = stage.state.attachment
                if renamed and attachment and renamed.keys() & {attachment.axis, *attachment.loops}:
                    loops = tuple(renamed.get(loop, loop) for loop in attachment.loops)
                    axis = renamed.get(attachment.axis, attachment.axis)
                    stage.state = replace(stage.state, attachment=replace(attachment, axis=axis, loops=loops))
            if renamed:
                self.allocations = {
                    buffer: replace(place, axis=renamed.get(place.axis, place.axis))
                    for buffer, place in self.allocations.items()
                }
            idle = without_idle_leads(self)
            for stage, state in idle.items():
                stage.state = state
            changes = {**changes, **idle}
            reordered = _moved(before_stages, self.stages)
            moved = reordered | {
                stage
                for stage, state in changes.items()
                if stage not in before_stages
                or not placed_alike(before[stage], state)
                or before[stage].scope != state.scope
                or before[stage].storage is not state.storage
                or allocations is not None
            }
            check_schedule(self, command, set(changes) | reordered, moved)
        except BaseException:
            self.stages, self.allocations = before_stages, before_allocations
            for stage, state in before.items():
                stage.state = state
            raise

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.stages)})"


def _moved(before: list[Stage], after: list[Stage]) -> set[Stage]:
    """The stages that another order of the stages may put before or behind others: none, or all."""
    kept = [stage for stage in after if stage in before]
    return set() if kept == [stage for stage in before if stage in after] else set(after)


record_commands(Schedule)


def create_schedule(outputs: Tensor | Computation | Sequence[Tensor]) -> Schedule:
    """A schedule of the program that computes ``outputs`` (one tensor, several, or a computation), one stage each.

    Raises TensorError for an empty list, or two tensors of one name.
    """
    return Schedule(as_outputs(outputs))


def stages_of(schedule: Schedule, readers: "Iterable[Tensor | Stage] | Tensor | Stage | None") -> list[Stage] | None:
    """The stages named by ``readers``: tensors or stages, one or several; None for None."""
    if readers is None:
        return None
    if isinstance(readers, Tensor | Stage | Computation) or not isinstance(readers, Iterable):
        return [schedule[readers]]
    return [schedule[each] for each in readers]
