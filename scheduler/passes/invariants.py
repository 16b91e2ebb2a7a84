"""What holds of a schedule after passes, each with a question that finds a counterexample."""

from collections.abc import Callable
from dataclasses import dataclass

from lathe.configs import LatheError
from lathe.configs.encoding import LOOKUP
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import walk
from lathe.frontend.expr.nodes import Reduce, Select, Undef
from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.isel.select_rule import rule_of
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import PhysicalLayout, physical_of
from lathe.scheduler.legality.verify_schedule import check_completed
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.passes.coalesce_loads import find_undecided_load
from lathe.scheduler.passes.delinearize_axes import is_split
from lathe.scheduler.passes.eliminate_dead_elements import is_read
from lathe.scheduler.passes.fold_constants import is_folded
from lathe.scheduler.passes.fold_reshapes import is_unscheduled, source_of_reshape
from lathe.scheduler.passes.fuse_lookups_into_rescale import is_rescaled
from lathe.scheduler.passes.if_convert import find_unmasked
from lathe.scheduler.passes.insert_layout_conversions import find_unconverted
from lathe.scheduler.passes.insert_writeback import can_write_back, is_writeback
from lathe.scheduler.passes.load_residual_via_gemm import find_unlowered_residual
from lathe.scheduler.passes.outline_lookups import inner_lookup
from lathe.scheduler.passes.resolve_layout_conflicts import find_layout_conflict
from lathe.scheduler.passes.select_execution_units import find_wrong_unit
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_copy


@dataclass(frozen=True)
class Invariant:
    """``counterexample`` is a sentence on a schedule of which ``sentence`` does not hold, or None."""

    name: str
    sentence: str
    counterexample: Callable[[Edit, Target], str | None]


def _of_stages(name: str, sentence: str, holds: Callable[[StageView], bool]) -> Invariant:
    """A property of each stage by itself."""

    def counterexample(schedule: Edit, target: Target) -> str | None:  # noqa: ARG001 - as all have
        wrong = next((stage.name for stage in schedule.stages if not holds(stage)), None)
        return None if wrong is None else f"{wrong}: {sentence}"

    return Invariant(name, sentence, counterexample)


def _misses_a_value(schedule: Edit, target: Target) -> str | None:  # noqa: ARG001 - as all have
    try:
        check_completed(schedule)
    except (AssertionError, LatheError) as error:
        return str(error)
    return None


def _stays_near(stage: StageView) -> bool:
    state, place = stage.state, stage.state.attachment
    if place is None or place.loops or state.scope != DRAM or set(state.tensors) & set(stage.schedule.outputs):
        return True
    by_user = state.storage is not None or state.pragma is not None or bool(state.signals)
    return by_user or is_writeback(stage) or can_write_back(stage, place)


def _has_own_loops(stage: StageView) -> bool:
    place = stage.state.attachment
    return stage.state.scope == DRAM or place is None or not place.loops or outlives_iteration(stage)


def _has_whole_blocks(stage: StageView) -> bool:
    for body in stage.state.computation.bodies:
        value = body  # cells that a body leaves undefined as a whole are not computed
        while isinstance(value, Select) and isinstance(value.otherwise, Undef):
            value = value.then
        if any(isinstance(node, Undef) for node in walk(value)):
            return False
    return True


def _stores_only(stage: StageView) -> bool:
    place = stage.state.attachment
    shares = place is not None and bool(place.loops) and stage.state.scope == DRAM
    return not shares or is_writeback(stage) or stage.state.pragma is not None


def _is_wide(stage: StageView) -> bool:
    body = stage.state.computation.bodies[0]
    narrow = isinstance(body, Reduce) and body.kind in ("sum", "prod") and DTYPES[body.dtype].bits < 32
    return not (narrow and is_unscheduled(stage))


def _is_no_free_reshape(stage: StageView) -> bool:
    """No reshape of an input is left in an untouched stage but one that is an output itself."""
    if not is_unscheduled(stage):
        return True
    source = source_of_reshape(stage)
    return source is None or stage.schedule.maker(source) is not None


def _does_not_fit(schedule: Edit, target: Target) -> str | None:
    known = assign_layouts(schedule, target.config).known
    physical: dict[StageView, PhysicalLayout] = {
        each: physical_of(each, known, target.config) for each in schedule.stages
    }
    try:
        buffers_of(
            schedule,
            target.config,
            build_nest(schedule, largest_blocks=True),
            physical,
            find_aliases(schedule, target.config),
        )
    except LatheError as error:
        return str(error)
    return None


def _is_not_loaded(schedule: Edit, target: Target) -> str | None:
    for stage in schedule.stages:
        state = stage.state
        computes = state.scope == target.near.name and state.copies is None and target.computes(state.pragma)
        if not computes or is_copy(stage):
            continue
        far = next(
            (read.tensor.name for read in state.computation.reads if schedule.scope_of(read.tensor) == DRAM), None
        )
        if far is not None:
            return f"{stage.name} reads {far} in DRAM"
    return None


def _is_looked_up_unscaled(schedule: Edit, target: Target) -> str | None:
    if LOOKUP not in target.config.extensions:
        return None
    wrong = next((stage.name for stage in schedule.stages if not is_rescaled(stage)), None)
    return None if wrong is None else f"{wrong} looks up what is not rescaled"


def _looks_up_inside(schedule: Edit, target: Target) -> str | None:
    if LOOKUP not in target.config.extensions:
        return None
    wrong = next((stage.name for stage in schedule.stages if inner_lookup(stage) is not None), None)
    return None if wrong is None else f"{wrong} does more than look up"


LEGAL = Invariant("legal", "every read is dominated by the write of its value", _misses_a_value)
NEAR = _of_stages(
    "near", "stages computed inside another stage's loop live in a scratchpad or have a write-back", _stays_near
)
WHOLE_DOMAINS = _of_stages(
    "whole domains",
    "no computation has a domain predicate (`where`)",
    lambda stage: stage.state.computation.where is None,
)
NOTHING_UNDEFINED = _of_stages("nothing undefined", "no computation reads undef", _has_whole_blocks)
STORES_SHARE = _of_stages(
    "stores share", "the only DRAM stages fused into other stages' loops are write-backs (copies)", _stores_only
)
STATES_APART = _of_stages(
    "states apart",
    "every fused DRAM stage writes exactly one tensor",
    lambda stage: _stores_only(stage) or len(stage.state.tensors) == 1,
)
OWN_LOOPS = _of_stages(
    "own loops",
    "no scratchpad stage is fused into another stage's loops, unless its values must outlive the iteration",
    _has_own_loops,
)
STORED_LANES = _of_stages(
    "stored lanes",
    "every stage marked vectorize has a vector layout",
    lambda stage: not stage.state.is_vectorized or stage.state.lanes is not None,
)
FOLDED = _of_stages(
    "folded",
    "no foldable operation is left: neither constant operands nor an algebraic identity (x + 0, x * 1)",
    is_folded,
)
ONE_OUTPUT = _of_stages(
    "one output",
    "every unscheduled stage has one output tensor",
    lambda stage: not is_unscheduled(stage) or len(stage.state.tensors) == 1,
)
LOOKUPS_APART = Invariant(
    "look-ups apart", "with lookup tables: a lookup is the only operation of its stage", _looks_up_inside
)
RESCALED_LOOKUPS = Invariant(
    "rescaled look-ups",
    "with lookup tables: every lookup is indexed by the result of a RESCALE",
    _is_looked_up_unscaled,
)
WIDE_SUMS = _of_stages("wide sums", "sum and product reductions accumulate in int32", _is_wide)
NO_RESHAPES = _of_stages("no reshapes", "reshapes of inputs have been folded into views", _is_no_free_reshape)
SPLIT_AXES = _of_stages(
    "split axes", "no index expression divides or takes the modulus of an axis that could be split", is_split
)
ALL_READ = _of_stages("all read", "no intermediate has dead elements at the borders of a dimension", is_read)
MASKED = Invariant(
    "masked",
    "no condition on data is left, no index is data, and no product is summed under a condition on its operands, as "
    "far as they can be numbers",
    find_unmasked,
)
BROUGHT = Invariant(
    "brought",
    "every residual operand that an identity GEMM delivers faster than a LOAD has been rewritten as one",
    find_unlowered_residual,
)
UNITS_CHOSEN = Invariant("units chosen", "no depthwise GEMM is left that would be faster on the ALU", find_wrong_unit)
AGREEING_LANES = Invariant(
    "agreeing lanes", "producer and consumers of every tensor agree on its vector layout", find_layout_conflict
)
WHOLE_ELEMENTS = Invariant(
    "whole elements", "every GEMM operand in DRAM has the vector layout its LOAD expects", find_unconverted
)
BUFFERS_FIT = Invariant("buffers fit", "buffers fit their memories", _does_not_fit)
LOADED = Invariant("loaded", "stages computed in acc read from scratchpads only", _is_not_loaded)
ADJOINING_CHOSEN = Invariant(
    "adjoining chosen", "every load of a stored operand is marked contiguous or not", find_undecided_load
)
RULES_NAMED = _of_stages(
    "rules named", "every stage has its emission rule selected", lambda stage: stage.state.rule == rule_of(stage)
)
