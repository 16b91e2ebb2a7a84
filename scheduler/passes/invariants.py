"""Invariants of schedules that passes establish, each with a check that returns a counterexample."""

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
from lathe.scheduler.legality.verify_schedule import check_lowered
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.passes.coalesce_loads import find_undecided_load
from lathe.scheduler.passes.delinearize_axes import has_linear_indices
from lathe.scheduler.passes.eliminate_dead_elements import has_no_dead_elements
from lathe.scheduler.passes.expand_piecewise_indices import has_linear_pieces
from lathe.scheduler.passes.fold_constants import is_folded
from lathe.scheduler.passes.fold_reshapes import is_unscheduled, source_of_reshape
from lathe.scheduler.passes.fuse_lookups_into_rescale import is_rescaled
from lathe.scheduler.passes.if_convert import find_unconverted_select
from lathe.scheduler.passes.insert_layout_conversions import find_unconverted
from lathe.scheduler.passes.insert_writeback import can_write_back, is_writeback
from lathe.scheduler.passes.load_residual_via_gemm import find_unlowered_residual
from lathe.scheduler.passes.outline_lookups import nested_lookup
from lathe.scheduler.passes.resolve_layout_conflicts import find_layout_conflict
from lathe.scheduler.passes.select_execution_units import find_wrong_unit
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_copy


@dataclass(frozen=True)
class Invariant:
    """``counterexample`` describes a violation of ``sentence`` in a schedule; None if the invariant holds."""

    name: str
    sentence: str
    counterexample: Callable[[Edit, Target], str | None]


def _of_stages(name: str, sentence: str, holds: Callable[[StageView], bool]) -> Invariant:
    """An invariant that holds of a schedule if ``holds`` is true of each stage."""

    def counterexample(schedule: Edit, target: Target) -> str | None:  # noqa: ARG001 - one signature for all invariants
        violating = next((stage.name for stage in schedule.stages if not holds(stage)), None)
        return None if violating is None else f"stage {violating} violates: {sentence}"

    return Invariant(name, sentence, counterexample)


def _find_illegal_read(schedule: Edit, target: Target) -> str | None:  # noqa: ARG001 - one signature for all invariants
    try:
        check_lowered(schedule)
    except (AssertionError, LatheError) as error:
        return str(error)
    return None


def _has_valid_scope(stage: StageView) -> bool:
    state, place = stage.state, stage.state.attachment
    if place is None or place.loops or state.scope != DRAM or set(state.tensors) & set(stage.schedule.outputs):
        return True
    by_user = state.storage is not None or state.pragma is not None or bool(state.sync_ops)
    return by_user or is_writeback(stage) or can_write_back(stage, place)


def _is_unfused_scratchpad(stage: StageView) -> bool:
    place = stage.state.attachment
    return stage.state.scope == DRAM or place is None or not place.loops or outlives_iteration(stage)


def _reads_no_undef(stage: StageView) -> bool:
    for body in stage.state.computation.bodies:
        value = body  # cells for which the whole body is undef are not computed
        while isinstance(value, Select) and isinstance(value.otherwise, Undef):
            value = value.then
        if any(isinstance(node, Undef) for node in walk(value)):
            return False
    return True


def _is_unfused_or_copy(stage: StageView) -> bool:
    place = stage.state.attachment
    shares = place is not None and bool(place.loops) and stage.state.scope == DRAM
    return not shares or is_writeback(stage) or stage.state.pragma is not None


def _is_wide(stage: StageView) -> bool:
    body = stage.state.computation.bodies[0]
    narrow = isinstance(body, Reduce) and body.kind in ("sum", "prod") and DTYPES[body.dtype].bits < 32
    return not (narrow and is_unscheduled(stage))


def _is_no_input_reshape(stage: StageView) -> bool:
    """Whether a stage is no reshape of an input; stages scheduled by the user may be."""
    if not is_unscheduled(stage):
        return True
    source = source_of_reshape(stage)
    return source is None or stage.schedule.producer(source) is not None


def _find_misfit(schedule: Edit, target: Target) -> str | None:
    known = assign_layouts(schedule, target.config).layouts
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


def _find_uncached_operand(schedule: Edit, target: Target) -> str | None:
    for stage in schedule.stages:
        state = stage.state
        computes = state.scope == target.acc.name and state.copy_of is None and target.computes(state.pragma)
        if not computes or is_copy(stage):
            continue
        in_dram = next(
            (read.tensor.name for read in state.computation.reads if schedule.scope_of(read.tensor) == DRAM), None
        )
        if in_dram is not None:
            return f"{stage.name} reads {in_dram} from DRAM"
    return None


def _find_unscaled_lookup(schedule: Edit, target: Target) -> str | None:
    if LOOKUP not in target.config.extensions:
        return None
    violating = next((stage.name for stage in schedule.stages if not is_rescaled(stage)), None)
    return None if violating is None else f"{violating} looks up a value that is not the result of a rescale"


def _find_nested_lookup(schedule: Edit, target: Target) -> str | None:
    if LOOKUP not in target.config.extensions:
        return None
    violating = next((stage.name for stage in schedule.stages if nested_lookup(stage) is not None), None)
    return None if violating is None else f"{violating} has a lookup nested in another operation"


LEGAL = Invariant("legal", "every read is dominated by the write of its value", _find_illegal_read)
SCOPES_VALID = _of_stages(
    "valid scopes",
    "stages computed inside another stage's loop live in a scratchpad or have a write-back",
    _has_valid_scope,
)
BOX_DOMAINS = _of_stages(
    "box domains",
    "no computation has a domain predicate (`where`)",
    lambda stage: stage.state.computation.where is None,
)
NO_UNDEF = _of_stages("no undef", "no computation reads undef", _reads_no_undef)
LINEAR_PIECES = _of_stages("linear pieces", "no index is a maximum, minimum or select", has_linear_pieces)
STORES_COPY = _of_stages(
    "stores copy", "the only DRAM stages fused into other stages' loops are write-backs (copies)", _is_unfused_or_copy
)
STORES_SINGLE = _of_stages(
    "stores single",
    "every fused DRAM stage writes exactly one tensor",
    lambda stage: _is_unfused_or_copy(stage) or len(stage.state.tensors) == 1,
)
UNFUSED = _of_stages(
    "unfused",
    "no scratchpad stage is fused into another stage's loops, unless its values must outlive the iteration",
    _is_unfused_scratchpad,
)
VECTORIZED = _of_stages(
    "vectorized",
    "every stage marked vectorize has a vector layout",
    lambda stage: not stage.state.is_vectorized or stage.state.vector_layout is not None,
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
OUTLINED = Invariant("outlined", "with lookup tables: a lookup is the only operation of its stage", _find_nested_lookup)
RESCALED_LOOKUPS = Invariant(
    "rescaled lookups", "with lookup tables: every lookup is indexed by the result of a RESCALE", _find_unscaled_lookup
)
WIDE_SUMS = _of_stages("wide sums", "sum and product reductions accumulate in int32", _is_wide)
RESHAPES_FOLDED = _of_stages("reshapes folded", "reshapes of inputs have been folded into views", _is_no_input_reshape)
AXES_SPLIT = _of_stages(
    "axes split", "no index expression divides or takes the modulus of an axis that could be split", has_linear_indices
)
NO_DEAD = _of_stages(
    "no dead elements", "no intermediate has dead elements at the borders of a dimension", has_no_dead_elements
)
IF_CONVERTED = Invariant(
    "if-converted",
    "no data-dependent select, no index used as data and no predicated sum of products is left that a 0/1 mask or a "
    "constant tensor can replace",
    find_unconverted_select,
)
RESIDUALS = Invariant(
    "residuals",
    "every residual operand that an identity GEMM delivers faster than a LOAD has been rewritten as one",
    find_unlowered_residual,
)
UNITS_SELECTED = Invariant(
    "units selected", "no depthwise GEMM is left that would be faster on the ALU", find_wrong_unit
)
LAYOUTS_AGREE = Invariant(
    "layouts agree", "producer and consumers of every tensor agree on its vector layout", find_layout_conflict
)
LOADABLE = Invariant("loadable", "every GEMM operand in DRAM has the vector layout its LOAD expects", find_unconverted)
BUFFERS_FIT = Invariant("buffers fit", "buffers fit their memories", _find_misfit)
CACHED = Invariant("operands cached", "stages computed in acc read from scratchpads only", _find_uncached_operand)
COALESCED = Invariant("coalesced", "every load of a stored operand is marked contiguous or not", find_undecided_load)
RULES_SELECTED = _of_stages(
    "rules selected", "every stage has its emission rule selected", lambda stage: stage.state.rule == rule_of(stage)
)
