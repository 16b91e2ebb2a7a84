"""Select execution units of depthwise stages: the matrix core with diagonal weights, or the ALU, by estimated cycles.

The matrix core takes one cycle per tap and result vector, the ALU eight. But diagonal weights are mostly zeros, which
are loaded, too: where few pixels use them, the ALU is done before they have arrived.
"""

from collections.abc import Iterator

from lathe.configs import HardwareConfig
from lathe.isa import AluOp
from lathe.scheduler.cost.stage_cost import alu_issue_cycles
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_depthwise import match_depthwise
from lathe.scheduler.layout.match_gemm import GemmMatch, SequentialAxes
from lathe.scheduler.passes.depthwise_cost import Estimate, estimate
from lathe.scheduler.passes.load_residual_via_gemm import is_identity_gemm
from lathe.scheduler.passes.lower_sum_to_gemm import is_sum
from lathe.scheduler.passes.scale_to_depthwise import as_sums, is_scale
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.target.target import Target

ALU_CYCLES_PER_MAC = 8
"""Cycles of the ALU per multiply-accumulate: copy to a temporary (3), multiply (3), add (2)."""
ALU_CYCLES_PER_MUL = 3
"""Cycles of the ALU per multiplication whose product is the result."""


def select_execution_units(schedule: Edit, target: Target) -> None:
    """Move stages to the ALU, in place, that it computes in fewer cycles, unless the user has fixed operands or a rule.

    Element-wise multiplications stay on the ALU unless the matrix core takes fewer cycles.
    """
    for stage, as_sum in [*as_sums(schedule)]:
        before = stage.state
        stage.put(as_sum)
        gemm = assign_layouts(schedule, target.config).gemms[stage.tensor]
        costs = None if gemm is None or not gemm.diagonal else _estimate(stage, gemm, target.config)
        if costs is None or costs.alu <= costs.matrix:
            stage.put(before)
    for stage in _faster_on_alu(schedule, target):
        stage.change(on_alu=True)


def find_wrong_unit(schedule: Edit, target: Target) -> str | None:
    """A stage with diagonal weights that the ALU would compute in fewer cycles."""
    violating = next((stage.name for stage in _faster_on_alu(schedule, target)), None)
    return None if violating is None else f"{violating} runs on the matrix core, but would be faster on the ALU"


def _faster_on_alu(schedule: Edit, target: Target) -> Iterator[EditedStage]:
    """The stages with diagonal weights, on no unit that the user has fixed, that the ALU computes in fewer cycles."""
    products = assign_layouts(schedule, target.config).gemms
    for stage in schedule.stages:
        gemm = products[stage.tensor]
        if gemm is None or not gemm.diagonal or not _is_undecided(stage, gemm) or is_identity_gemm(stage):
            continue
        costs = _estimate(stage, gemm, target.config)
        if costs.alu < costs.matrix:
            yield stage


def explain_unit_selection(schedule: ScheduleView, target: Target) -> Iterator[tuple[str, str]]:
    """Why each stage that has or could have diagonal weights is on its unit, by stage name.

    The schedule is that after ``select_execution_units``.
    """
    config = target.config
    plan = assign_layouts(schedule, config)
    for stage in schedule.stages:
        gemm = plan.gemms[stage.tensor]
        if gemm is None and stage.state.on_alu:
            gemm = match_depthwise(stage.state.computation, config, schedule, plan.layouts, None, SequentialAxes())
        if gemm is None or not gemm.diagonal:
            continue
        costs = _estimate(stage, gemm, config)
        matrix, alu = f"matrix core about {costs.matrix:,} cycles", f"ALU about {costs.alu:,}"
        if not stage.state.on_alu:
            reason = "" if _is_undecided(stage, gemm) else ", as its operands or its rule require"
            yield stage.name, f"diagonal weights{reason} ({matrix}, {alu})"
        elif costs.alu < costs.matrix:
            yield stage.name, f"no diagonal weights, which take longer to load than the ALU computes ({matrix}, {alu})"
        else:
            yield stage.name, f"no diagonal weights, for the vector layout of its neighbours ({matrix}, {alu})"


def _is_undecided(stage: StageView, gemm: GemmMatch) -> bool:
    """Whether the user has fixed no unit for a stage: by a rule, or by a scratchpad for an operand."""
    scopes = {stage.schedule.scope_of(read.tensor) for read in (gemm.data, gemm.weight)}
    return stage.state.pragma is None and scopes == {DRAM}


def _estimate(stage: StageView, gemm: GemmMatch, config: HardwareConfig) -> Estimate:
    if is_sum(stage, gemm):
        cycles = alu_issue_cycles(AluOp.ADD, immediate=False)
    else:
        cycles = ALU_CYCLES_PER_MUL if is_scale(stage.state.computation) else ALU_CYCLES_PER_MAC
    return estimate(stage, gemm, config, cycles)
