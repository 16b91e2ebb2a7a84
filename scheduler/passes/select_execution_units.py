"""Which unit multiplies each channel by weights of its own: the matrix core, with diagonal weights, or the ALU.

The matrix core takes a step for each tap of an element of the result, where the ALU takes eight. But elements of
diagonal weights are mostly zeros, which are loaded too: where few pixels use them, the ALU is done before that.
"""

from collections.abc import Iterator

from lathe.configs import HardwareConfig
from lathe.isa import AluOp
from lathe.scheduler.cost.issue_cycles import steps_of_alu
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_depthwise import diagonal_product
from lathe.scheduler.layout.match_gemm import GemmMatch, SequentialAxes
from lathe.scheduler.passes.depthwise_cost import Estimate, estimate
from lathe.scheduler.passes.load_residual_via_gemm import is_brought
from lathe.scheduler.passes.lower_sum_to_gemm import is_sum
from lathe.scheduler.passes.scale_to_depthwise import as_sums, is_scale
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.target.target import Target

STEPS_OF_ALU = 8
"""Steps of the ALU for a product that is added: copied to a temporary (3), multiplied (3), added (2)."""
STEPS_OF_SCALE = 3
"""Steps of the ALU for a product that is the result: multiplied."""


def select_execution_units(schedule: Edit, target: Target) -> None:
    """Leave to the ALU what it computes in fewer cycles, of stages that nobody has given operands or a rule.

    Products element by element stay with it, unless the matrix core takes fewer cycles.
    """
    for stage, summed in [*as_sums(schedule)]:
        before = stage.state
        stage.put(summed)
        product = assign_layouts(schedule, target.config).products[stage.tensor]
        found = None if product is None or not product.diagonal else _estimate(stage, product, target.config)
        if found is None or found.alu <= found.matrix:
            stage.put(before)
    for stage in _sooner_on_alu(schedule, target):
        stage.change(on_alu=True)


def find_wrong_unit(schedule: Edit, target: Target) -> str | None:
    """A stage with diagonal weights that the ALU would compute in fewer cycles."""
    wrong = next((stage.name for stage in _sooner_on_alu(schedule, target)), None)
    return None if wrong is None else f"{wrong} is left to the matrix core, where the ALU is done before"


def _sooner_on_alu(schedule: Edit, target: Target) -> Iterator[EditedStage]:
    """The stages with diagonal weights that nobody has given a unit and the ALU computes in fewer cycles."""
    products = assign_layouts(schedule, target.config).products
    for stage in schedule.stages:
        product = products[stage.tensor]
        if product is None or not product.diagonal or not _is_open(stage, product) or is_brought(stage):
            continue
        found = _estimate(stage, product, target.config)
        if found.alu < found.matrix:
            yield stage


def explain_unit_selection(schedule: ScheduleView, target: Target) -> Iterator[tuple[str, str]]:
    """Stages of a schedule, as it is after ``select_execution_units``, that have diagonal weights or could, by name,
    and why.
    """
    config = target.config
    plan = assign_layouts(schedule, config)
    for stage in schedule.stages:
        product = plan.products[stage.tensor]
        if product is None and stage.state.on_alu:
            product = diagonal_product(stage.state.computation, config, schedule, plan.known, None, SequentialAxes())
        if product is None or not product.diagonal:
            continue
        found = _estimate(stage, product, config)
        matrix, alu = f"matrix core about {found.matrix:,} cycles", f"ALU about {found.alu:,}"
        if not stage.state.on_alu:
            given = "" if _is_open(stage, product) else ", as its operands or its rule say"
            yield stage.name, f"diagonal weights{given} ({matrix}, {alu})"
        elif found.alu < found.matrix:
            yield stage.name, f"no diagonal weights, which take longer to load than the ALU computes ({matrix}, {alu})"
        else:
            yield (
                stage.name,
                f"no diagonal weights, for lanes that agree with those of its neighbours ({matrix}, {alu})",
            )


def _is_open(stage: StageView, product: GemmMatch) -> bool:
    """Whether nobody has said what computes a stage: by a rule, or by a scratchpad for an operand."""
    scopes = {stage.schedule.scope_of(read.tensor) for read in (product.data, product.weight)}
    return stage.state.pragma is None and scopes == {DRAM}


def _estimate(stage: StageView, product: GemmMatch, config: HardwareConfig) -> Estimate:
    if is_sum(stage, product):
        steps = steps_of_alu(AluOp.ADD, immediate=False)
    else:
        steps = STEPS_OF_SCALE if is_scale(stage.state.computation) else STEPS_OF_ALU
    return estimate(stage, product, config, steps)
