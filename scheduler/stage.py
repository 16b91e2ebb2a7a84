"""The handle of one stage: schedule commands are its methods."""

from typing import TYPE_CHECKING

from lathe.frontend import Axis, Computation, Tensor
from lathe.scheduler.commands.after import after
from lathe.scheduler.commands.before import before
from lathe.scheduler.commands.between import between
from lathe.scheduler.commands.branch import branch, reduce_extent
from lathe.scheduler.commands.compute_at import compute_at, compute_root
from lathe.scheduler.commands.distribute import distribute
from lathe.scheduler.commands.double_buffer import double_buffer
from lathe.scheduler.commands.emit_insn import emit_insn
from lathe.scheduler.commands.fuse import fuse
from lathe.scheduler.commands.inline import inline
from lathe.scheduler.commands.interchange import interchange
from lathe.scheduler.commands.overcompute import overcompute
from lathe.scheduler.commands.parallelize import parallelize
from lathe.scheduler.commands.reorder import reorder
from lathe.scheduler.commands.reorder_to_buffer import reorder_to_buffer
from lathe.scheduler.commands.reuse_at import keep_at
from lathe.scheduler.commands.reverse import reverse
from lathe.scheduler.commands.send import receive, send
from lathe.scheduler.commands.separate import separate
from lathe.scheduler.commands.set_schedule import set_schedule
from lathe.scheduler.commands.set_scope import set_scope
from lathe.scheduler.commands.shift import shift
from lathe.scheduler.commands.skew import skew
from lathe.scheduler.commands.split import split
from lathe.scheduler.commands.store_in import store_in
from lathe.scheduler.commands.then import then
from lathe.scheduler.commands.tile import tile
from lathe.scheduler.commands.transform_layout import transform_layout_of
from lathe.scheduler.commands.unroll import unroll
from lathe.scheduler.commands.vectorize import vectorize
from lathe.scheduler.commands.vthread import vthread
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.history import record_commands
from lathe.scheduler.state.stage import Affine, LoopAxis, Mapped, StageState, made_by, replaced_by
from lathe.scheduler.state.storage import StorageBuffer

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule

AxisLike = LoopAxis | Axis | str


class Stage:
    """One computation of a schedule. Every command checks that the schedule stays legal, and changes nothing if not."""

    def __init__(self, schedule: "Schedule", state: StageState) -> None:
        self.schedule = schedule
        self.state = state

    @property
    def name(self) -> str:
        return self.state.computation.name

    @property
    def op(self) -> Computation:
        """The computation, as it reads and writes now (caches redirect reads)."""
        return self.state.computation

    @property
    def tensor(self) -> Tensor:
        return self.state.tensor

    @property
    def axis(self) -> tuple[LoopAxis, ...]:
        """The data axes of the computation, before any split, in order."""
        return tuple(root for root in self.state.roots if root.kind == "data")

    @property
    def reduce_axis(self) -> tuple[LoopAxis, ...]:
        """The reduction axes of the computation, before any split, in order."""
        return tuple(root for root in self.state.roots if root.kind == "reduce")

    @property
    def leaf_axis(self) -> tuple[LoopAxis, ...]:
        """The loops as they stand now, outermost first."""
        return self.state.leaves

    @property
    def buffer(self) -> StorageBuffer | None:
        """The buffer that ``store_in`` has put this stage's values into; None where nothing is said about it."""
        return None if self.state.storage is None else self.state.storage.buffer

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The largest box of values that this stage has at a time, without dimensions of extent 1.

        For a reuse buffer that is the shape inferred for it.
        """
        from lathe.scheduler.nest.place import place_stages

        return place_stages(self.schedule)[self].buffer_shape

    def find(self, axis: AxisLike, command: str) -> LoopAxis:
        """The present loop that ``axis`` names.

        Raises ScheduleError if it is an axis of another stage, or has been split or fused away.
        """
        found = self._candidates(axis)
        present = [each for each in found if each in self.state.leaves]
        if len(present) == 1:
            return present[0]
        loops = ", ".join(leaf.name for leaf in self.state.leaves)
        wanted = f"axis of {command} on stage {self.name} must be one of its present loops ({loops}), not"
        if present:
            raise ScheduleError(
                f"{wanted} {axis!r}, which names {len(present)} of them. Pass the axis itself.", kind="argument"
            )
        if found:
            made = [each for each in self.state.relations if found[0] in replaced_by(each)]
            earlier = "split or fuse"
            if made and isinstance(made[0], Affine | Mapped):
                earlier = made[0].command if isinstance(made[0], Affine) else "set_schedule"
            raise ScheduleError(
                f"{wanted} {found[0].name!r}, which an earlier {earlier} has replaced. Use the axes that the command "
                "returned.",
                kind="argument",
            )
        name = repr(axis if isinstance(axis, str) else getattr(axis, "name", axis))
        if isinstance(axis, LoopAxis | Axis):
            name += " of another stage"
        raise ScheduleError(
            f"{wanted} {name}. Take it from s[{self.name}].axis, .reduce_axis or from what a command on this stage "
            "returned.",
            kind="argument",
        )

    def _candidates(self, axis: AxisLike) -> list[LoopAxis]:
        """The loops, present or replaced, that an axis or a name may mean."""
        known: dict[LoopAxis, None] = dict.fromkeys((*self.state.roots, *self.state.leaves))
        for relation in self.state.relations:
            known.update(dict.fromkeys((*replaced_by(relation), *made_by(relation))))
        if isinstance(axis, str):
            return [each for each in known if each.name == axis]
        return [each for each in known if each is axis or (each.source is not None and each.source is axis)]

    def update(self, state: StageState, command: str) -> None:
        """Put a new state in place if the schedule stays legal with it (raises ScheduleError if not)."""
        self.schedule.commit({self: state}, command)

    split = split
    tile = tile
    reorder = reorder
    fuse = fuse
    interchange = interchange
    reverse = reverse
    shift = shift
    skew = skew
    separate = separate
    set_schedule = set_schedule
    unroll = unroll
    vectorize = vectorize
    parallelize = parallelize
    distribute = distribute
    inline = inline
    after = after
    before = before
    then = then
    between = between
    compute_at = compute_at
    compute_root = compute_root
    set_scope = set_scope
    store_in = store_in
    double_buffer = double_buffer
    send = send
    receive = receive
    vthread = vthread
    virtual_threads = vthread
    transform_layout = transform_layout_of
    overcompute = overcompute
    branch = branch
    reduce_extent = reduce_extent
    reorder_to_buffer = reorder_to_buffer
    reuse_at = keep_at
    emit_insn = emit_insn

    def __repr__(self) -> str:
        return f"Stage({self.name})"


record_commands(Stage)
