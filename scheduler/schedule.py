"""The user's handles: a schedule and its stages, with the primitives as methods."""

from collections.abc import Mapping, Sequence
from typing import cast

from lathe.configs import HardwareConfig, load_config
from lathe.configs.html_repr import repr_html
from lathe.frontend import Computation, Tensor
from lathe.frontend.tensor.programs import as_outputs
from lathe.scheduler.inspect.counts import count
from lathe.scheduler.inspect.explain import explanation_of
from lathe.scheduler.inspect.explanation import Explanation
from lathe.scheduler.inspect.queries import is_legal, is_parallel, parallel_skew, smallest_shift
from lathe.scheduler.legality.dependences import dependences
from lathe.scheduler.legality.required_pad_values import padding_needed, solve_padding
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.primitives.barrier_at import barrier_at
from lathe.scheduler.primitives.branch import branch, reduce_extent
from lathe.scheduler.primitives.cache import cache_read, cache_write
from lathe.scheduler.primitives.compute_at import compute_at, compute_root
from lathe.scheduler.primitives.copy_at import copy_at
from lathe.scheduler.primitives.double_buffer import double_buffer
from lathe.scheduler.primitives.emit_insn import emit_insn
from lathe.scheduler.primitives.fuse import fuse
from lathe.scheduler.primitives.host_copies import device_to_host, host_to_device
from lathe.scheduler.primitives.inline import inline
from lathe.scheduler.primitives.inline_elementwise import inline_elementwise
from lathe.scheduler.primitives.interchange import interchange
from lathe.scheduler.primitives.merge_adjacent import merge_adjacent
from lathe.scheduler.primitives.order import after, before, between, then
from lathe.scheduler.primitives.overcompute import overcompute
from lathe.scheduler.primitives.parallelize import distribute, parallelize
from lathe.scheduler.primitives.remove_dead_stores import remove_dead_stores
from lathe.scheduler.primitives.reorder import reorder
from lathe.scheduler.primitives.reorder_to_buffer import reorder_to_buffer
from lathe.scheduler.primitives.reuse_at import reuse_at, reuse_own_at
from lathe.scheduler.primitives.reverse import reverse
from lathe.scheduler.primitives.send import receive, send
from lathe.scheduler.primitives.separate import separate
from lathe.scheduler.primitives.set_schedule import set_schedule
from lathe.scheduler.primitives.set_scope import set_scope
from lathe.scheduler.primitives.shift import shift
from lathe.scheduler.primitives.skew import skew
from lathe.scheduler.primitives.split import split
from lathe.scheduler.primitives.store_in import allocate_at, buffer, store_in
from lathe.scheduler.primitives.tile import tile
from lathe.scheduler.primitives.tile_for import tile_for
from lathe.scheduler.primitives.transform_layout import transform_layout, transform_layout_of
from lathe.scheduler.primitives.unroll import unroll
from lathe.scheduler.primitives.vectorize import vectorize
from lathe.scheduler.primitives.vthread import vthread
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageId, StageState
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_trace import TracedSchedule, primitive, with_bound_parameters
from lathe.scheduler.target.target import check_machine


class Stage(EditedStage):
    """A stage of a schedule. A primitive that would make the schedule illegal raises an error and changes nothing."""

    __slots__ = ()

    _schedule: "Schedule"

    _repr_html_ = repr_html

    @property
    def schedule(self) -> "Schedule":
        """The schedule that this is a stage of."""
        return self._schedule

    @property
    def axis(self) -> tuple[LoopAxis, ...]:
        """The data axes of the computation before any split, in order."""
        return tuple(root for root in self.state.roots if root.kind == "data")

    @property
    def reduce_axis(self) -> tuple[LoopAxis, ...]:
        """The reduction axes of the computation before any split, in order."""
        return tuple(root for root in self.state.roots if root.kind == "reduce")

    @property
    def leaf_axis(self) -> tuple[LoopAxis, ...]:
        """The present loops, outermost first."""
        return self.state.leaves

    @property
    def buffer(self) -> StorageBuffer | None:
        """The buffer that ``store_in`` has assigned to this stage; None if there is none."""
        return None if self.state.storage is None else self.state.storage.buffer

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The largest box of values that this stage has at a time, without dimensions of extent 1.

        For a reuse buffer it is the inferred shape.
        """
        return place_stages(self.schedule)[self].buffer_shape

    split = primitive(split)
    tile = primitive(tile)
    reorder = primitive(reorder)
    fuse = primitive(fuse)
    interchange = primitive(interchange)
    reverse = primitive(reverse)
    shift = primitive(shift)
    skew = primitive(skew)
    separate = primitive(separate)
    set_schedule = primitive(set_schedule)
    unroll = primitive(unroll)
    vectorize = primitive(vectorize)
    parallelize = primitive(parallelize)
    distribute = primitive(distribute)
    inline = primitive(inline)
    after = primitive(after)
    before = primitive(before)
    then = primitive(then)
    between = primitive(between)
    compute_at = primitive(compute_at)
    compute_root = primitive(compute_root)
    set_scope = primitive(set_scope)
    store_in = primitive(store_in)
    double_buffer = primitive(double_buffer)
    send = primitive(send)
    receive = primitive(receive)
    vthread = primitive(vthread)
    virtual_threads = vthread
    transform_layout = primitive(transform_layout_of, "transform_layout")
    overcompute = primitive(overcompute)
    branch = primitive(branch)
    reduce_extent = primitive(reduce_extent)
    reorder_to_buffer = primitive(reorder_to_buffer)
    reuse_at = primitive(reuse_own_at, "reuse_at")
    emit_insn = primitive(emit_insn)


class Schedule(TracedSchedule):
    """The order in which the values of ``outputs`` are computed; ``s[C]`` is the stage that computes tensor ``C``.

    A new schedule computes stage after stage, each over its whole domain, all in DRAM. Primitives (methods of stages
    and of the schedule) change that; each checks that every read still finds its value.
    """

    _stages: tuple[Stage, ...]

    _repr_html_ = repr_html

    def _view(self, key: StageId, state: StageState) -> StageView:
        return Stage(self, key, state)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in schedule order."""
        return self._stages or cast("tuple[Stage, ...]", super().stages)

    def __getitem__(self, tensor: Tensor | Computation | StageView) -> Stage:
        """The stage of a tensor or computation. Raises ScheduleError if the schedule has none."""
        return cast(Stage, super().__getitem__(tensor))

    barrier_at = primitive(barrier_at)
    buffer = primitive(buffer)
    allocate_at = primitive(allocate_at)
    cache_read = primitive(cache_read)
    cache_write = primitive(cache_write)
    copy_at = primitive(copy_at)
    host_to_device = primitive(host_to_device)
    device_to_host = primitive(device_to_host)
    transform_layout = primitive(transform_layout)
    inline_elementwise = primitive(inline_elementwise)
    merge_adjacent = primitive(merge_adjacent)
    remove_dead_stores = primitive(remove_dead_stores)
    tile_for = primitive(tile_for)
    padding_needed = padding_needed
    solve_padding = solve_padding

    reuse_at = primitive(reuse_at)
    dependences = dependences
    is_parallel = is_parallel
    is_legal = is_legal
    count = count
    smallest_shift = smallest_shift
    parallel_skew = parallel_skew

    def explain(
        self, config: HardwareConfig | None = None, *, parameters: Mapping[str, int] | None = None
    ) -> Explanation:
        """``lathe.explain``: the emission rule of each class of chunks, or the first constraint that fails.

        ``config`` is the machine, ``load_config("vta")`` by default. Raises BuildError if it is invalid.
        """
        machine = load_config("vta") if config is None else config
        check_machine(machine, "explain")
        return explanation_of(with_bound_parameters(self, parameters, "explain")[0], machine)


def create_schedule(outputs: Tensor | Computation | Sequence[Tensor]) -> Schedule:
    """A schedule of the program that computes ``outputs`` (tensors, or a computation), with one stage per computation.

    Raises TensorError for an empty list, or two tensors of one name.
    """
    return Schedule(as_outputs(outputs))
