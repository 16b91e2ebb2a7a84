"""What holds of a schedule after passes, each with a question that finds a counterexample."""

from collections.abc import Callable
from dataclasses import dataclass

from lathe.configs import LatheError
from lathe.configs.encoding import LOOKUP
from lathe.frontend.dtypes import DTYPES
from lathe.frontend.nodes import Reduce, Select, Undef
from lathe.frontend.operand import walk
from lathe.scheduler.legality.check import check_completed
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.passes.adjoin_elements import waits_for_adjoining
from lathe.scheduler.passes.agree_on_lanes import lanes_disagree
from lathe.scheduler.passes.bring_by_products import waits_for_products
from lathe.scheduler.passes.choose_units import waits_for_a_unit
from lathe.scheduler.passes.drop_unread import is_read
from lathe.scheduler.passes.fold_constants import is_folded
from lathe.scheduler.passes.groups import is_copy
from lathe.scheduler.passes.join_lookups import is_rescaled
from lathe.scheduler.passes.mask_conditions import waits_for_masks
from lathe.scheduler.passes.merge_reshapes import is_untouched, source_of_reshape
from lathe.scheduler.passes.separate_lookups import inner_lookup
from lathe.scheduler.passes.split_axes import is_split
from lathe.scheduler.passes.store_in_loops import can_be_kept, stores_only
from lathe.scheduler.passes.turn_elements import waits_for_turns
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.memories import DRAM
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.state.stored import values_stay
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import Physical, physical_of
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.reused_cells import find_aliases
from lathe.scheduler.target.rule_choice import rule_of
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class Property:
    """``counterexample`` is a sentence on a schedule of which ``sentence`` does not hold, or None."""

    name: str
    sentence: str
    counterexample: Callable[[Edit, Target], str | None]


def _of_stages(name: str, sentence: str, holds: Callable[[StageView], bool]) -> Property:
    """A property of each stage by itself."""

    def counterexample(schedule: Edit, target: Target) -> str | None:  # noqa: ARG001 - as all have
        wrong = next((stage.name for stage in schedule.stages if not holds(stage)), None)
        return None if wrong is None else f"{wrong}: {sentence}"

    return Property(name, sentence, counterexample)


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
    return by_user or stores_only(stage) or can_be_kept(stage, place)


def _has_own_loops(stage: StageView) -> bool:
    place = stage.state.attachment
    return stage.state.scope == DRAM or place is None or not place.loops or values_stay(stage)


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
    return not shares or stores_only(stage) or stage.state.pragma is not None


def _is_wide(stage: StageView) -> bool:
    body = stage.state.computation.bodies[0]
    narrow = isinstance(body, Reduce) and body.kind in ("sum", "prod") and DTYPES[body.dtype].bits < 32
    return not (narrow and is_untouched(stage))


def _is_no_free_reshape(stage: StageView) -> bool:
    """No reshape of an input is left in an untouched stage but one that is an output itself."""
    if not is_untouched(stage):
        return True
    source = source_of_reshape(stage)
    return source is None or stage.schedule.maker(source) is not None


def _does_not_fit(schedule: Edit, target: Target) -> str | None:
    known = plan_lanes(schedule, target.config).known
    physical: dict[StageView, Physical] = {each: physical_of(each, known, target.config) for each in schedule.stages}
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


LEGAL = Property("legal", "every read finds its value", _misses_a_value)
NEAR = _of_stages("near", "what is computed inside a loop of another is in a scratchpad, or can be stored", _stays_near)
WHOLE_DOMAINS = _of_stages(
    "whole domains", "no computation has a condition on its domain", lambda stage: stage.state.computation.where is None
)
NOTHING_UNDEFINED = _of_stages("nothing undefined", "nothing is computed from undefined values", _has_whole_blocks)
STORES_SHARE = _of_stages("stores share", "of stages in DRAM only plain copies share loops", _stores_only)
STATES_APART = _of_stages(
    "states apart",
    "one tensor per stage that shares loops in DRAM",
    lambda stage: _stores_only(stage) or len(stage.state.tensors) == 1,
)
OWN_LOOPS = _of_stages("own loops", "none in a scratchpad shares loops, unless its values stay", _has_own_loops)
STORED_LANES = _of_stages(
    "stored lanes",
    "a stage that vectorize is said of has lanes",
    lambda stage: not stage.state.is_vectorized or stage.state.lanes is not None,
)
FOLDED = _of_stages(
    "folded", "no operation is on constants alone, or amounts to one of its operands whatever is read", is_folded
)
ONE_OUTPUT = _of_stages(
    "one output",
    "untouched stages make one tensor",
    lambda stage: not is_untouched(stage) or len(stage.state.tensors) == 1,
)
LOOKUPS_APART = Property(
    "look-ups apart", "on machines with tables, look-ups are all that an untouched stage does", _looks_up_inside
)
RESCALED_LOOKUPS = Property(
    "rescaled look-ups", "on machines with tables, only rescaled values are looked up", _is_looked_up_unscaled
)
WIDE_SUMS = _of_stages("wide sums", "sums of untouched stages are in 32 bits", _is_wide)
NO_RESHAPES = _of_stages("no reshapes", "no reshape of an input is computed", _is_no_free_reshape)
SPLIT_AXES = _of_stages("split axes", "no index takes an axis apart that can be several axes", is_split)
ALL_READ = _of_stages("all read", "along each dimension, all that an untouched stage makes for others is read", is_read)
MASKED = Property(
    "masked",
    "no condition on data is left, no index is data, and no product is summed under a condition on its operands, as "
    "far as they can be numbers",
    waits_for_masks,
)
BROUGHT = Property("brought", "what a product with ones brings sooner, it brings", waits_for_products)
UNITS_CHOSEN = Property(
    "units chosen", "no stage with diagonal weights is left that the ALU computes sooner", waits_for_a_unit
)
AGREEING_LANES = Property("agreeing lanes", "maker and readers of each tensor agree on its lanes", lanes_disagree)
WHOLE_ELEMENTS = Property("whole elements", "what products load lies as elements that they load", waits_for_turns)
BUFFERS_FIT = Property("buffers fit", "buffers fit their memories", _does_not_fit)
LOADED = Property("loaded", "what acc computes reads scratchpads only", _is_not_loaded)
ADJOINING_CHOSEN = Property(
    "adjoining chosen", "of every load of stored elements it is decided whether they adjoin", waits_for_adjoining
)
RULES_NAMED = _of_stages(
    "rules named", "every stage names the rule that takes it", lambda stage: stage.state.rule == rule_of(stage)
)
