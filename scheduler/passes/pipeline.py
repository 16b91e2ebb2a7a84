"""What a schedule leaves open, filled in for a machine: a list of passes, each of which says what holds afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lathe.configs import HardwareConfig, LatheError
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.legality.verify_schedule import check_completed
from lathe.scheduler.passes import invariants as given
from lathe.scheduler.passes.align_input_slices import align_input_slices
from lathe.scheduler.passes.assign_memory_scopes import assign_memory_scopes
from lathe.scheduler.passes.coalesce_loads import coalesce_loads
from lathe.scheduler.passes.compact_strided_loads import compact_strided_loads
from lathe.scheduler.passes.delinearize_axes import delinearize_axes
from lathe.scheduler.passes.elide_concat import elide_concat
from lathe.scheduler.passes.eliminate_dead_elements import eliminate_dead_elements
from lathe.scheduler.passes.fit_layout_to_storage import fit_layout_to_storage
from lathe.scheduler.passes.fold_constants import fold_constants
from lathe.scheduler.passes.fold_reshapes import fold_reshapes
from lathe.scheduler.passes.fold_slices import fold_slices
from lathe.scheduler.passes.fuse_lookups_into_rescale import fuse_lookups_into_rescale
from lathe.scheduler.passes.if_convert import if_convert
from lathe.scheduler.passes.insert_cache_reads import insert_cache_reads
from lathe.scheduler.passes.insert_layout_conversions import insert_layout_conversions
from lathe.scheduler.passes.insert_writeback import insert_writeback
from lathe.scheduler.passes.invariants import Invariant
from lathe.scheduler.passes.legalize_domains import legalize_domains
from lathe.scheduler.passes.load_residual_via_gemm import load_residual_via_gemm
from lathe.scheduler.passes.lower_concat_to_gemm import lower_concat_to_gemm
from lathe.scheduler.passes.lower_sum_to_gemm import lower_sum_to_gemm
from lathe.scheduler.passes.mark_speculatable_loads import mark_speculatable_loads
from lathe.scheduler.passes.merge_conv_groups import merge_conv_groups
from lathe.scheduler.passes.normalize_compute_at import normalize_compute_at
from lathe.scheduler.passes.outline_lookups import outline_lookups
from lathe.scheduler.passes.overcompute_padding import overcompute_padding
from lathe.scheduler.passes.rematerialize import rematerialize
from lathe.scheduler.passes.resolve_layout_conflicts import resolve_layout_conflicts
from lathe.scheduler.passes.select_execution_units import select_execution_units
from lathe.scheduler.passes.select_instructions import select_instructions
from lathe.scheduler.passes.space_to_depth_inputs import space_to_depth_inputs
from lathe.scheduler.passes.split_outputs import split_outputs
from lathe.scheduler.passes.tile_and_fuse import TileAndFuse
from lathe.scheduler.passes.vectorize_outer_dim import vectorize_outer_dim
from lathe.scheduler.passes.widen_accumulators import widen_accumulators
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule import ScheduleState, ScheduleView
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class Pass:
    """One step of completing a schedule for a machine.

    ``run`` does it in an edit; ``needs`` must hold before, and ``gives`` holds from then on.
    """

    name: str
    run: Callable[[Edit, Target], None]
    needs: tuple[Invariant, ...] = ()
    gives: tuple[Invariant, ...] = ()

    def apply(self, state: ScheduleState, target: Target) -> ScheduleState:
        """The state after the pass; the one given stays as it is."""
        edit = Edit(state)
        self.run(edit, target)
        return edit.state


PASSES = (
    Pass("mark-speculatable-loads", mark_speculatable_loads, (given.LEGAL,)),
    Pass("assign-memory-scopes", assign_memory_scopes, (given.LEGAL,), (given.NEAR,)),
    Pass("legalize-domains", legalize_domains, (), (given.WHOLE_DOMAINS,)),
    Pass("overcompute-padding", overcompute_padding, (given.WHOLE_DOMAINS,), (given.NOTHING_UNDEFINED,)),
    Pass("insert-writeback", insert_writeback, (given.NEAR,), (given.STORES_SHARE, given.STATES_APART)),
    Pass("normalize-compute-at", normalize_compute_at, (given.STORES_SHARE,), (given.OWN_LOOPS,)),
    Pass("fit-layout-to-storage", fit_layout_to_storage, (), (given.STORED_LANES,)),
    Pass("fold-constants", fold_constants, (given.WHOLE_DOMAINS, given.NOTHING_UNDEFINED), (given.FOLDED,)),
    Pass("split-outputs", split_outputs, (given.WHOLE_DOMAINS,), (given.ONE_OUTPUT,)),
    Pass("outline-lookups", outline_lookups, (given.ONE_OUTPUT, given.FOLDED), (given.LOOKUPS_APART,)),
    Pass("fuse-lookups-into-rescale", fuse_lookups_into_rescale, (given.LOOKUPS_APART,), (given.RESCALED_LOOKUPS,)),
    Pass("widen-accumulators", widen_accumulators, (given.ONE_OUTPUT,), (given.WIDE_SUMS,)),
    Pass("fold-reshapes", fold_reshapes, (given.ONE_OUTPUT, given.FOLDED), (given.NO_RESHAPES,)),
    Pass("merge-conv-groups", merge_conv_groups, (given.ONE_OUTPUT, given.FOLDED)),
    Pass("delinearize-axes", delinearize_axes, (given.NO_RESHAPES,), (given.SPLIT_AXES,)),
    Pass("fold-slices", fold_slices, (given.SPLIT_AXES,)),
    Pass(
        "eliminate-dead-elements", eliminate_dead_elements, (given.WHOLE_DOMAINS, given.SPLIT_AXES), (given.ALL_READ,)
    ),
    Pass("vectorize-outer-dim", vectorize_outer_dim, (given.ALL_READ,)),
    Pass("rematerialize", rematerialize, (given.WIDE_SUMS, given.ALL_READ)),
    Pass("space-to-depth-inputs", space_to_depth_inputs, (given.ALL_READ,)),
    Pass("align-input-slices", align_input_slices, (given.ALL_READ,)),
    Pass("lower-concat-to-gemm", lower_concat_to_gemm, (given.ONE_OUTPUT,)),
    Pass("if-convert", if_convert, (given.NOTHING_UNDEFINED, given.ALL_READ), (given.MASKED,)),
    Pass("load-residual-via-gemm", load_residual_via_gemm, (given.MASKED,), (given.BROUGHT,)),
    Pass("lower-sum-to-gemm", lower_sum_to_gemm, (given.FOLDED, given.WIDE_SUMS, given.SPLIT_AXES)),
    Pass("select-execution-units", select_execution_units, (given.MASKED, given.BROUGHT), (given.UNITS_CHOSEN,)),
    Pass("compact-strided-loads", compact_strided_loads, (given.ALL_READ, given.UNITS_CHOSEN)),
    Pass(
        "resolve-layout-conflicts",
        resolve_layout_conflicts,
        (given.OWN_LOOPS, given.STORED_LANES, given.UNITS_CHOSEN),
        (given.AGREEING_LANES,),
    ),
    Pass("insert-layout-conversions", insert_layout_conversions, (given.AGREEING_LANES,), (given.WHOLE_ELEMENTS,)),
    Pass("elide-concat", elide_concat, (given.AGREEING_LANES, given.WHOLE_ELEMENTS)),
    Pass("tile-and-fuse", TileAndFuse(), (given.AGREEING_LANES, given.WHOLE_ELEMENTS), (given.BUFFERS_FIT,)),
    Pass("insert-cache-reads", insert_cache_reads, (given.BUFFERS_FIT,), (given.LOADED,)),
    Pass("coalesce-loads", coalesce_loads, (given.LOADED,), (given.ADJOINING_CHOSEN,)),
    Pass("select-instructions", select_instructions, (given.LOADED,), (given.RULES_NAMED,)),
)
"""In their order. ``lower(stage=NAME)`` shows a schedule after each."""


class PassInstrument(Protocol):
    """Who looks at a schedule at first and after each pass, by the name of that."""

    def __call__(self, name: str, schedule: ScheduleView) -> None: ...


def run_pipeline(
    schedule: ScheduleView,
    config: HardwareConfig,
    passes: Sequence[Pass] | None = None,
    watch: PassInstrument | None = None,
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


def run_pipeline_partial(
    schedule: ScheduleView, config: HardwareConfig, watch: PassInstrument | None = None
) -> tuple[ScheduleView, dict[StageId, LatheError]]:
    """The same, with stages of groups that cannot be completed left open, and why."""
    refused: dict[StageId, LatheError] = {}
    passes = [replace(each, run=TileAndFuse(refused)) if each.name == "tile-and-fuse" else each for each in PASSES]
    return run_pipeline(schedule, config, passes, watch), refused


def run_until(schedule: ScheduleView, config: HardwareConfig, name: str, without: str = "") -> ScheduleView:
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
