"""The pass pipeline that lowers a schedule for a machine: a list of passes, with the invariants that they establish."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lathe.configs import HardwareConfig, LatheError
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.legality.verify_schedule import check_lowered
from lathe.scheduler.passes import invariants as inv
from lathe.scheduler.passes.align_input_slices import align_input_slices
from lathe.scheduler.passes.assign_memory_scopes import assign_memory_scopes
from lathe.scheduler.passes.coalesce_loads import coalesce_loads
from lathe.scheduler.passes.compact_strided_loads import compact_strided_loads
from lathe.scheduler.passes.delinearize_axes import delinearize_axes
from lathe.scheduler.passes.elide_concat import elide_concat
from lathe.scheduler.passes.eliminate_dead_elements import eliminate_dead_elements
from lathe.scheduler.passes.expand_piecewise_indices import expand_piecewise_indices
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
from lathe.scheduler.passes.lower_constant_division import lower_constant_division
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
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState, ScheduleView
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class Pass:
    """A compiler pass: ``run`` rewrites the schedule of an edit in place.

    The invariants ``requires`` must hold before it; those of ``establishes`` hold after it and after all later passes.
    """

    name: str
    run: Callable[[Edit, Target], None]
    requires: tuple[Invariant, ...] = ()
    establishes: tuple[Invariant, ...] = ()

    def apply(self, state: ScheduleState, target: Target) -> ScheduleState:
        """Run the pass on a schedule state and return the new state; ``state`` itself is not changed."""
        edit = Edit(state)
        self.run(edit, target)
        return edit.state


PASSES = (
    Pass("mark-speculatable-loads", mark_speculatable_loads, (inv.LEGAL,)),
    Pass("assign-memory-scopes", assign_memory_scopes, (inv.LEGAL,), (inv.SCOPES_VALID,)),
    Pass("legalize-domains", legalize_domains, (), (inv.BOX_DOMAINS,)),
    Pass("overcompute-padding", overcompute_padding, (inv.BOX_DOMAINS,), (inv.NO_UNDEF,)),
    Pass("expand-piecewise-indices", expand_piecewise_indices, (), (inv.LINEAR_PIECES,)),
    Pass("lower-constant-division", lower_constant_division),
    Pass("insert-writeback", insert_writeback, (inv.SCOPES_VALID,), (inv.STORES_COPY, inv.STORES_SINGLE)),
    Pass("normalize-compute-at", normalize_compute_at, (inv.STORES_COPY,), (inv.UNFUSED,)),
    Pass("fit-layout-to-storage", fit_layout_to_storage, (), (inv.VECTORIZED,)),
    Pass("fold-constants", fold_constants, (inv.BOX_DOMAINS, inv.NO_UNDEF), (inv.FOLDED,)),
    Pass("split-outputs", split_outputs, (inv.BOX_DOMAINS,), (inv.ONE_OUTPUT,)),
    Pass("outline-lookups", outline_lookups, (inv.ONE_OUTPUT, inv.FOLDED), (inv.OUTLINED,)),
    Pass("fuse-lookups-into-rescale", fuse_lookups_into_rescale, (inv.OUTLINED,), (inv.RESCALED_LOOKUPS,)),
    Pass("widen-accumulators", widen_accumulators, (inv.ONE_OUTPUT,), (inv.WIDE_SUMS,)),
    Pass("fold-reshapes", fold_reshapes, (inv.ONE_OUTPUT, inv.FOLDED), (inv.RESHAPES_FOLDED,)),
    Pass("merge-conv-groups", merge_conv_groups, (inv.ONE_OUTPUT, inv.FOLDED)),
    Pass("delinearize-axes", delinearize_axes, (inv.RESHAPES_FOLDED,), (inv.AXES_SPLIT,)),
    Pass("fold-slices", fold_slices, (inv.AXES_SPLIT,)),
    Pass("eliminate-dead-elements", eliminate_dead_elements, (inv.BOX_DOMAINS, inv.AXES_SPLIT), (inv.NO_DEAD,)),
    Pass("vectorize-outer-dim", vectorize_outer_dim, (inv.NO_DEAD,)),
    Pass("rematerialize", rematerialize, (inv.WIDE_SUMS, inv.NO_DEAD)),
    Pass("space-to-depth-inputs", space_to_depth_inputs, (inv.NO_DEAD,)),
    Pass("align-input-slices", align_input_slices, (inv.NO_DEAD,)),
    Pass("lower-concat-to-gemm", lower_concat_to_gemm, (inv.ONE_OUTPUT,)),
    Pass("if-convert", if_convert, (inv.NO_UNDEF, inv.NO_DEAD), (inv.IF_CONVERTED,)),
    Pass("load-residual-via-gemm", load_residual_via_gemm, (inv.IF_CONVERTED,), (inv.RESIDUALS,)),
    Pass("lower-sum-to-gemm", lower_sum_to_gemm, (inv.FOLDED, inv.WIDE_SUMS, inv.AXES_SPLIT)),
    Pass("select-execution-units", select_execution_units, (inv.IF_CONVERTED, inv.RESIDUALS), (inv.UNITS_SELECTED,)),
    Pass("compact-strided-loads", compact_strided_loads, (inv.NO_DEAD, inv.UNITS_SELECTED)),
    Pass(
        "resolve-layout-conflicts",
        resolve_layout_conflicts,
        (inv.UNFUSED, inv.VECTORIZED, inv.UNITS_SELECTED),
        (inv.LAYOUTS_AGREE,),
    ),
    Pass("insert-layout-conversions", insert_layout_conversions, (inv.LAYOUTS_AGREE,), (inv.LOADABLE,)),
    Pass("elide-concat", elide_concat, (inv.LAYOUTS_AGREE, inv.LOADABLE)),
    Pass("tile-and-fuse", TileAndFuse(), (inv.LAYOUTS_AGREE, inv.LOADABLE), (inv.BUFFERS_FIT,)),
    Pass("insert-cache-reads", insert_cache_reads, (inv.BUFFERS_FIT,), (inv.CACHED,)),
    Pass("coalesce-loads", coalesce_loads, (inv.CACHED,), (inv.COALESCED,)),
    Pass("select-instructions", select_instructions, (inv.CACHED,), (inv.RULES_SELECTED,)),
)
"""In execution order. ``lower(stage=NAME)`` shows the schedule after the pass NAME."""


class PassInstrument(Protocol):
    """A callback that is called with the schedule before the first pass and after each pass, with the pass's name."""

    def __call__(self, name: str, schedule: ScheduleView) -> None: ...


def run_pipeline(
    schedule: ScheduleView,
    config: HardwareConfig,
    passes: Sequence[Pass] | None = None,
    watch: PassInstrument | None = None,
) -> ScheduleView:
    """Lower a schedule for a machine: give every stage a memory scope, a compute location and an emission rule.

    Returns a new schedule. Stages with a pragma, a scratchpad scope or a compute location set by the user keep them.
    Raises CapacityError if a stage whose loops the user has fixed does not fit, wherever its operands are loaded.
    """
    edit, target = Edit(schedule.state), Target(config)
    if watch is not None:
        watch("schedule of the user", edit)
    for each in PASSES if passes is None else passes:
        each.run(edit, target)
        if watch is not None:
            watch(each.name, edit)
    check_lowered(edit)
    _check_communication(edit, target)
    return edit


def run_pipeline_partial(
    schedule: ScheduleView, config: HardwareConfig, watch: PassInstrument | None = None
) -> tuple[ScheduleView, dict[StageId, LatheError]]:
    """As ``run_pipeline``, but stages of fusion groups that no tiling fits stay untiled; also returns why, by stage."""
    refused: dict[StageId, LatheError] = {}
    passes = [replace(each, run=TileAndFuse(refused)) if each.name == "tile-and-fuse" else each for each in PASSES]
    return run_pipeline(schedule, config, passes, watch), refused


def run_until(schedule: ScheduleView, config: HardwareConfig, name: str, without: str = "") -> ScheduleView:
    """The schedule after the pass ``name``, optionally leaving out the earlier pass ``without``."""
    edit = Edit(schedule.state)
    for each in PASSES:
        if each.name != without:
            each.run(edit, Target(config))
        if each.name == name:
            return edit
    raise AssertionError(f"no pass {name}")


def _check_communication(schedule: Edit, target: Target) -> None:
    """Raises BuildError where commands on queues name loops or units that the passes have replaced by others."""
    for stage in schedule.stages:
        try:
            check_communication(stage, "build")
        except ScheduleError as error:
            raise BuildError(
                f"{error} For machine {target.name!r}, stage {stage.name} is computed in {stage.state.scope}. Call "
                f"s[{stage.name}].set_scope before send, receive, barrier_at, vthread and double_buffer.",
                kind=error.kind,
            ) from None
