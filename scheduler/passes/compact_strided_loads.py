"""Products that read every n-th pixel or line of what is stored load these alone.

A 1×1 convolution by 2 of an input, or of what others read too, reads every other pixel on every other line. Loaded as
it lies, a tile is four times as large as what products read of it. Here such a product reads a copy of these elements,
which is loaded to its scratchpad as a border is. A line less is a step of a LOAD more, which costs nothing; pixels of a
line are a burst each, which is worth it where that takes no longer than the line does.
"""

from math import ceil

from lathe.configs import HardwareConfig
from lathe.frontend import Axis
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.spatial_dims import pixels_of
from lathe.scheduler.layout.vector_type import element_of
from lathe.scheduler.passes.eliminate_dead_elements import shrink_dim
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.rewrite import copy_of, reads_redirected
from lathe.scheduler.rewriting.strided_access import Elements, elements_read
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM, INP
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target


def compact_strided_loads(schedule: Edit, target: Target) -> None:
    """Copies, in place, of what untouched products read of their data, if that is every n-th of its elements."""
    products = assign_layouts(schedule, target.config).products
    for stage in list(schedule.stages):
        product = products[stage.tensor]
        if product is None or not is_unscheduled(stage) or schedule.scope_of(product.data.tensor) != DRAM:
            continue
        reads = [read for read in stage.state.computation.reads if read.tensor is product.data.tensor]
        found = _gathered(product, target.config)
        if found and len(reads) == 1 and product.data.tensor not in stage.state.tensors:
            before = schedule.state
            _gather(schedule, stage, product, found)
            if _fills_rows(schedule, stage, found, target.config):
                schedule.reset_to(before)


def _gathered(product: GemmMatch, config: HardwareConfig) -> dict[int, Elements]:
    """By dimension, what a product reads of its data, where it is quicker to load that alone."""
    data, pixels = product.data, pixels_of(product, config)
    read = {dim: elements_read([index], data.tensor.shape[dim]) for dim, index in enumerate(data.indices)}
    found = {dim: each for dim, each in read.items() if each is not None and each.step > 1}
    if not found or not found.keys() <= set(pixels):
        return {}
    of_element = element_of(config, INP).lanes / config.bus_bytes
    line = data.tensor.shape[pixels[-1]] * of_element
    if pixels[-1] in found and _burst(of_element, config) <= found[pixels[-1]].step * of_element:
        return found  # each pixel is a burst, whatever lines it is of
    found.pop(pixels[-1], None)
    return {} if any(_burst(line, config) > each.step * line for each in found.values()) else found


def _gather(schedule: Edit, stage: EditedStage, product: GemmMatch, found: dict[int, Elements]) -> None:
    """Let a product read a copy of its data that holds these elements alone."""
    tensor = product.data.tensor
    axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))
    copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.read"), axes, whole=True)
    copied = schedule.insert(initial_state(copy), before=stage)
    stage.change(computation=reads_redirected(stage.state.computation, {product.data: copied.tensor}))
    for dim, elements in found.items():
        shrink_dim(copied, dim, elements)
    copied.change(copies=tensor)


def _fills_rows(schedule: Edit, stage: EditedStage, found: dict[int, Elements], config: HardwareConfig) -> bool:
    """Whether what has been gathered would run along rows of elements, which are loaded as they are stored."""
    product = assign_layouts(schedule, config).products[stage.tensor]
    return product is None or any(dim not in pixels_of(product, config) for dim in found)


def _burst(beats: float, config: HardwareConfig) -> float:
    """The beats in whose time a burst goes over the bus, among others of its length."""
    memory = config.memory
    waiting = memory.latency / memory.cycles_per_beat
    return max(ceil(beats), (waiting + ceil(beats)) / memory.outstanding_reads)
