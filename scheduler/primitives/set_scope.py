"""``set_scope``: the memory of a stage's values."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM, SCOPE_SYNONYMS, SCOPES
from lathe.scheduler.schedule_ir.stage import StageState


def _with_synonyms(name: str) -> str:
    others = [other or repr(other) for other, meant in SCOPE_SYNONYMS.items() if meant == name]
    return f"{name} (or {' or '.join(others)})" if others else name


_NAMES = ", ".join(map(_with_synonyms, SCOPES))


def checked_scope(scope: str, where: str) -> str:
    """The canonical name of a scope. Raises ScheduleError for an unknown scope."""
    name = SCOPE_SYNONYMS.get(scope, scope) if isinstance(scope, str) else scope
    if not isinstance(name, str) or name not in SCOPES:
        raise ScheduleError(f"scope of {where} must be one of {_NAMES}, not {scope!r}.", kind="argument")
    return name


def set_scope(stage: EditedStage, scope: str) -> None:
    """Store the values of this stage in a scratchpad, or in ``"dram"``.

    Scratchpads are ``"inp"``, ``"wgt"``, ``"acc"``, ``"par"`` and ``"lut"``. ``"out"``, from which results are stored,
    is a synonym of ``"acc"``; ``"global"`` and ``""`` are synonyms of ``"dram"``. Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].set_scope("acc")``::

        buffer B in acc: [0 + 60]
        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2
        free B

    Raises ScheduleError for an unknown scope, a scratchpad for an output of the program, which must be in DRAM, or DRAM
    for a reuse buffer.
    """
    commit(stage.schedule, {stage: scoped(stage, scope)}, "set_scope")


def scoped(stage: EditedStage, scope: str) -> StageState:
    """The state of a stage with another scope. Raises ScheduleError as ``set_scope`` does."""
    name = checked_scope(scope, f"stage {stage.name}")
    output = next((tensor for tensor in stage.state.tensors if tensor in stage.schedule.outputs), None)
    if name != DRAM and output is not None:
        remedy = f"Make a copy in the scratchpad with s.cache_write({output.name}, {name!r})."
        if len(stage.state.tensors) > 1:
            remedy = "Give each output a computation of its own, and make copies in the scratchpad with s.cache_write."
        raise ScheduleError(
            f"scope of stage {stage.name} must be dram, not {scope!r}, because {output.name} is an output of the "
            f"program. {remedy}",
            kind="machine",
        )
    if name == DRAM and stage.state.reuse is not None:
        raise ScheduleError(
            f"scope of stage {stage.name} must be a scratchpad, not {scope!r}, because it is a reuse buffer. Undo "
            "reuse_at with compute_root or compute_at first.",
            kind="argument",
        )
    return replace(stage.state, scope=name)
