"""Compact strided loads: LOADs fetch only the image rows and pixels that a strided GEMM reads, densely packed.

A 1×1 convolution with stride 2 reads every other pixel of every other row of an input, or of a tensor that others read,
too. Loaded as it is stored, a tile would be four times as large as what the GEMM reads. So the GEMM reads a copy of
these elements, which is loaded into its scratchpad like a padding. A LOAD skips rows at no cost; pixels of a row become
a burst each, which pays off where that takes no longer than the whole row.
"""

from math import ceil

from lathe.configs import HardwareConfig
from lathe.frontend import Axis
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.spatial_dims import spatial_dims_of
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.passes.eliminate_dead_elements import shrink_dim
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_single_reads
from lathe.scheduler.rewriting.strided_access import StridedElements, elements_read
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM, INP
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target


def compact_strided_loads(schedule: Edit, target: Target) -> None:
    """Insert copies, in place, of the data of unscheduled GEMMs that read every n-th element of it."""
    gemms = assign_layouts(schedule, target.config).gemms
    for stage in list(schedule.stages):
        gemm = gemms[stage.tensor]
        if gemm is None or not is_unscheduled(stage) or schedule.scope_of(gemm.data.tensor) != DRAM:
            continue
        reads = [read for read in stage.state.computation.reads if read.tensor is gemm.data.tensor]
        strided = _strided_dims(gemm, target.config)
        if strided and len(reads) == 1 and gemm.data.tensor not in stage.state.tensors:
            before = schedule.state
            _insert_copy(schedule, stage, gemm, strided)
            if _fills_rows(schedule, stage, strided, target.config):
                schedule.reset_to(before)


def _strided_dims(gemm: GemmMatch, config: HardwareConfig) -> dict[int, StridedElements]:
    """By dimension, the strided elements that a GEMM reads of its data, where loading these alone is faster."""
    data, pixels = gemm.data, spatial_dims_of(gemm, config)
    read = {dim: elements_read([index], data.tensor.shape[dim]) for dim, index in enumerate(data.indices)}
    strided = {dim: each for dim, each in read.items() if each is not None and each.step > 1}
    if not strided or not strided.keys() <= set(pixels):
        return {}
    vector = vector_type_of(config, INP).lanes / config.bus_bytes
    row = data.tensor.shape[pixels[-1]] * vector
    if pixels[-1] in strided and _burst(vector, config) <= strided[pixels[-1]].step * vector:
        return strided  # each pixel is a burst, in whatever rows
    strided.pop(pixels[-1], None)
    return {} if any(_burst(row, config) > each.step * row for each in strided.values()) else strided


def _insert_copy(schedule: Edit, stage: EditedStage, gemm: GemmMatch, strided: dict[int, StridedElements]) -> None:
    """Let a GEMM read a copy of its data that has only these elements."""
    tensor = gemm.data.tensor
    axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))
    copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.read"), axes, whole=True)
    copied = schedule.insert(initial_state(copy), before=stage)
    stage.change(computation=redirect_single_reads(stage.state.computation, {gemm.data: copied.tensor}))
    for dim, elements in strided.items():
        shrink_dim(copied, dim, elements)
    copied.change(copy_of=tensor)


def _fills_rows(
    schedule: Edit, stage: EditedStage, strided: dict[int, StridedElements], config: HardwareConfig
) -> bool:
    """Whether a compacted dimension would run along the rows of vectors, which are loaded as they are stored."""
    gemm = assign_layouts(schedule, config).gemms[stage.tensor]
    return gemm is None or any(dim not in spatial_dims_of(gemm, config) for dim in strided)


def _burst(beats: float, config: HardwareConfig) -> float:
    """The bus beats that a burst takes while others of its length are in flight."""
    memory = config.memory
    latency = memory.latency / memory.cycles_per_beat
    return max(ceil(beats), (latency + ceil(beats)) / memory.outstanding_reads)
