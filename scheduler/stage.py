"""The handle of one stage: schedule commands are its methods."""

from typing import TYPE_CHECKING

from lathe.frontend import Axis, Computation, Tensor
from lathe.scheduler.commands.compute_at import compute_at, compute_root
from lathe.scheduler.commands.emit_insn import emit_insn
from lathe.scheduler.commands.fuse import fuse
from lathe.scheduler.commands.reorder import reorder
from lathe.scheduler.commands.set_scope import set_scope
from lathe.scheduler.commands.split import split
from lathe.scheduler.commands.tile import tile
from lathe.scheduler.commands.unroll import unroll
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import LoopAxis, StageState

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

    def find(self, axis: AxisLike, command: str) -> LoopAxis:
        """The present loop that ``axis`` names.

        Raises ScheduleError if it is an axis of another stage, or has been split or fused away.
        """
        found = self._candidate(axis)
        if found in self.state.leaves:
            return found
        loops = ", ".join(leaf.name for leaf in self.state.leaves)
        if found is not None:
            raise ScheduleError(
                f"axis of {command} on stage {self.name} must be one of its present loops ({loops}), not "
                f"{found.name!r}, which an earlier split or fuse has replaced. Use the axes that the command returned."
            )
        name = axis if isinstance(axis, str) else getattr(axis, "name", axis)
        raise ScheduleError(
            f"axis of {command} on stage {self.name} must be one of its present loops ({loops}), not {name!r}. "
            f"Take it from s[{self.name}].axis, .reduce_axis or from what a command on this stage returned."
        )

    def _candidate(self, axis: AxisLike) -> LoopAxis | None:
        known = [*self.state.roots, *self.state.leaves]
        for relation in self.state.relations:
            known.extend(vars(relation)[key] for key in ("parent", "outer", "inner", "fused") if key in vars(relation))
        for candidate in known:
            if candidate is axis or (candidate.source is not None and candidate.source is axis):
                return candidate
        if isinstance(axis, str):
            named = [leaf for leaf in self.state.leaves if leaf.name == axis]
            return named[0] if len(named) == 1 else None
        return None

    def update(self, state: StageState, command: str) -> None:
        """Put a new state in place if the schedule stays legal with it (raises ScheduleError if not)."""
        self.schedule.commit({self: state}, command)

    split = split
    tile = tile
    reorder = reorder
    fuse = fuse
    unroll = unroll
    compute_at = compute_at
    compute_root = compute_root
    set_scope = set_scope
    emit_insn = emit_insn

    def __repr__(self) -> str:
        return f"Stage({self.name})"
