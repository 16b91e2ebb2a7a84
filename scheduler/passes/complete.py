"""What a schedule leaves open, filled in for a machine: a list of passes, each of which says what holds afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lathe.configs import HardwareConfig, LatheError
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.legality.check import check_completed
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.passes import properties as given
from lathe.scheduler.passes.adjoin_elements import adjoin_elements
from lathe.scheduler.passes.agree_on_lanes import agree_on_lanes
from lathe.scheduler.passes.bring_by_products import bring_by_products
from lathe.scheduler.passes.choose_rules import choose_rules
from lathe.scheduler.passes.choose_units import choose_units
from lathe.scheduler.passes.compute_again import compute_again
from lathe.scheduler.passes.compute_at_readers import compute_at_readers
from lathe.scheduler.passes.drop_unread import drop_unread
from lathe.scheduler.passes.fill_domains import fill_domains
from lathe.scheduler.passes.fill_lanes import fill_lanes
from lathe.scheduler.passes.fill_padding import fill_padding
from lathe.scheduler.passes.fit_lanes import fit_lanes
from lathe.scheduler.passes.fold_constants import fold_constants
from lathe.scheduler.passes.gather_reads import gather_reads
from lathe.scheduler.passes.join_by_products import join_by_products
from lathe.scheduler.passes.join_lookups import join_lookups
from lathe.scheduler.passes.keep_parts_near import keep_parts_near
from lathe.scheduler.passes.load_operands import load_operands
from lathe.scheduler.passes.mask_conditions import mask_conditions
from lathe.scheduler.passes.merge_groups import merge_groups
from lathe.scheduler.passes.merge_reshapes import merge_reshapes
from lathe.scheduler.passes.note_early_loads import note_early_loads
from lathe.scheduler.passes.pack_remainders import pack_remainders
from lathe.scheduler.passes.properties import Property
from lathe.scheduler.passes.read_parts import read_parts
from lathe.scheduler.passes.separate_lookups import separate_lookups
from lathe.scheduler.passes.shift_inputs import shift_inputs
from lathe.scheduler.passes.split_axes import split_axes
from lathe.scheduler.passes.split_outputs import split_outputs
from lathe.scheduler.passes.store_in_loops import store_in_loops
from lathe.scheduler.passes.store_joined import store_joined
from lathe.scheduler.passes.sum_by_products import sum_by_products
from lathe.scheduler.passes.tile_groups import TileGroups
from lathe.scheduler.passes.turn_elements import turn_elements
from lathe.scheduler.passes.widen_sums import widen_sums
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.schedule import ScheduleState, ScheduleView
from lathe.scheduler.state.stage import StageId
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class Pass:
    """One step of completing a schedule for a machine.

    ``run`` does it in an edit; ``needs`` must hold before, and ``gives`` holds from then on.
    """

    name: str
    run: Callable[[Edit, Target], None]
    needs: tuple[Property, ...] = ()
    gives: tuple[Property, ...] = ()

    def apply(self, state: ScheduleState, target: Target) -> ScheduleState:
        """The state after the pass; the one given stays as it is."""
        edit = Edit(state)
        self.run(edit, target)
        return edit.state


PASSES = (
    Pass("note-early-loads", note_early_loads, (given.LEGAL,)),
    Pass("keep-parts-near", keep_parts_near, (given.LEGAL,), (given.NEAR,)),
    Pass("fill-domains", fill_domains, (), (given.WHOLE_DOMAINS,)),
    Pass("fill-padding", fill_padding, (given.WHOLE_DOMAINS,), (given.NOTHING_UNDEFINED,)),
    Pass("store-in-loops", store_in_loops, (given.NEAR,), (given.STORES_SHARE, given.STATES_APART)),
    Pass("compute-at-readers", compute_at_readers, (given.STORES_SHARE,), (given.OWN_LOOPS,)),
    Pass("fit-lanes", fit_lanes, (), (given.STORED_LANES,)),
    Pass("fold-constants", fold_constants, (given.WHOLE_DOMAINS, given.NOTHING_UNDEFINED), (given.FOLDED,)),
    Pass("split-outputs", split_outputs, (given.WHOLE_DOMAINS,), (given.ONE_OUTPUT,)),
    Pass("separate-lookups", separate_lookups, (given.ONE_OUTPUT, given.FOLDED), (given.LOOKUPS_APART,)),
    Pass("join-lookups", join_lookups, (given.LOOKUPS_APART,), (given.RESCALED_LOOKUPS,)),
    Pass("widen-sums", widen_sums, (given.ONE_OUTPUT,), (given.WIDE_SUMS,)),
    Pass("merge-reshapes", merge_reshapes, (given.ONE_OUTPUT, given.FOLDED), (given.NO_RESHAPES,)),
    Pass("merge-groups", merge_groups, (given.ONE_OUTPUT, given.FOLDED)),
    Pass("split-axes", split_axes, (given.NO_RESHAPES,), (given.SPLIT_AXES,)),
    Pass("read-parts", read_parts, (given.SPLIT_AXES,)),
    Pass("drop-unread", drop_unread, (given.WHOLE_DOMAINS, given.SPLIT_AXES), (given.ALL_READ,)),
    Pass("fill-lanes", fill_lanes, (given.ALL_READ,)),
    Pass("compute-again", compute_again, (given.WIDE_SUMS, given.ALL_READ)),
    Pass("pack-remainders", pack_remainders, (given.ALL_READ,)),
    Pass("shift-inputs", shift_inputs, (given.ALL_READ,)),
    Pass("join-by-products", join_by_products, (given.ONE_OUTPUT,)),
    Pass("mask-conditions", mask_conditions, (given.NOTHING_UNDEFINED, given.ALL_READ), (given.MASKED,)),
    Pass("bring-by-products", bring_by_products, (given.MASKED,), (given.BROUGHT,)),
    Pass("sum-by-products", sum_by_products, (given.FOLDED, given.WIDE_SUMS, given.SPLIT_AXES)),
    Pass("choose-units", choose_units, (given.MASKED, given.BROUGHT), (given.UNITS_CHOSEN,)),
    Pass("gather-reads", gather_reads, (given.ALL_READ, given.UNITS_CHOSEN)),
    Pass(
        "agree-on-lanes",
        agree_on_lanes,
        (given.OWN_LOOPS, given.STORED_LANES, given.UNITS_CHOSEN),
        (given.AGREEING_LANES,),
    ),
    Pass("turn-elements", turn_elements, (given.AGREEING_LANES,), (given.WHOLE_ELEMENTS,)),
    Pass("store-joined", store_joined, (given.AGREEING_LANES, given.WHOLE_ELEMENTS)),
    Pass("tile-groups", TileGroups(), (given.AGREEING_LANES, given.WHOLE_ELEMENTS), (given.BUFFERS_FIT,)),
    Pass("load-operands", load_operands, (given.BUFFERS_FIT,), (given.LOADED,)),
    Pass("adjoin-elements", adjoin_elements, (given.LOADED,), (given.ADJOINING_CHOSEN,)),
    Pass("choose-rules", choose_rules, (given.LOADED,), (given.RULES_NAMED,)),
)
"""In their order. ``lower(stage=NAME)`` shows a schedule after each."""


class Watch(Protocol):
    """Who looks at a schedule at first and after each pass, by the name of that."""

    def __call__(self, name: str, schedule: ScheduleView) -> None: ...


def complete(
    schedule: ScheduleView, config: HardwareConfig, passes: Sequence[Pass] | None = None, watch: Watch | None = None
) -> ScheduleView:
    """The schedule with scope and place of every stage for the machine; the one given stays as it is.

    Stages with a pragma, a scratchpad scope or a place of their own stay as they are. Raises CapacityError if a stage
    whose loops are given does not fit, however far inside its operands are loaded.
    """
    edit, target = Edit(schedule.state), Target(config)
    if watch is not None:
        watch("the commands", edit)
    for each in PASSES if passes is None else passes:
        each.run(edit, target)
        if watch is not None:
            watch(each.name, edit)
    check_completed(edit)
    _check_communication(edit, target)
    return edit


def completed_as_far_as_it_goes(
    schedule: ScheduleView, config: HardwareConfig, watch: Watch | None = None
) -> tuple[ScheduleView, dict[StageId, LatheError]]:
    """The same, with stages of groups that cannot be completed left open, and why."""
    refused: dict[StageId, LatheError] = {}
    passes = [replace(each, run=TileGroups(refused)) if each.name == "tile-groups" else each for each in PASSES]
    return complete(schedule, config, passes, watch), refused


def up_to(schedule: ScheduleView, config: HardwareConfig, name: str, without: str = "") -> ScheduleView:
    """The schedule as it is after the pass of a name, perhaps without one of those before."""
    edit = Edit(schedule.state)
    for each in PASSES:
        if each.name != without:
            each.run(edit, Target(config))
        if each.name == name:
            return edit
    raise AssertionError(f"no pass {name}")


def _check_communication(schedule: Edit, target: Target) -> None:
    """Raises BuildError where loops or units that a schedule speaks of are others now."""
    for stage in schedule.stages:
        try:
            check_communication(stage, "build")
        except ScheduleError as error:
            raise BuildError(
                f"{error} For machine {target.name!r}, stage {stage.name} is made in {stage.state.scope}: say where "
                f"with s[{stage.name}].set_scope before anything of queues.",
                kind=error.kind,
            ) from None
