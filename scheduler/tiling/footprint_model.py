"""Footprint model of a fusion group: the box of each stage in a tile, its loads, and the issue cycles of the tile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from lathe.configs.encoding import GEMM_BEGIN, INSTRUCTION_BYTES, PAD_VALUE
from lathe.frontend import Computation, Tensor, as_affine
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.nodes import Axis, axes_of, reads_data
from lathe.isa import AluOp, Unit
from lathe.scheduler.allocation.weight_buffer_depth import WEIGHT_SLOTS
from lathe.scheduler.cost.cost_model import (
    PREFETCHED_REDUCTION_TILE_OVERHEAD,
    REDUCTION_TILE_OVERHEAD,
    least_cycles,
    least_cycles_of_transfers,
    load_cycles,
)
from lathe.scheduler.cost.stage_cost import alu_issue_cycles, rescale_issue_cycles
from lathe.scheduler.layout.accumulate_in_place import sum_in_place
from lathe.scheduler.layout.dilation_compaction import dilation_of
from lathe.scheduler.layout.dma_footprint import loads_of_box
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.nonzero_analysis import NonzeroAnalysis, nonzero_fraction
from lathe.scheduler.layout.physical_layout import PhysicalLayout, contiguous_layout, scratchpad_layout, split_dims_of
from lathe.scheduler.layout.rescaling import missing_extensions, rescaling_of
from lathe.scheduler.layout.vector_type import largest_block, loaded_bytes
from lathe.scheduler.rewriting.matchers import dim_indexed_by
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.tiling.contiguous_operands import has_contiguous_groups, stored_source
from lathe.scheduler.tiling.fusion_groups import is_padding
from lathe.scheduler.tiling.problem import TilingProblem

Terms = tuple[tuple[int, int], ...]
"""An affine index: positions of axes, and their absolute coefficients."""
ANYWHERE: Terms = ((0, 0),)
"""A data-dependent index."""
_Reads = tuple[EditedStage, Tensor, list[tuple[int, bool, int]], list[tuple[Tensor, list[tuple[int, Terms, int]]]]]
"""A stage and its tensor; per reduction axis the extent, whether it is tiled, and its tile if it is fixed (else 0); per
group of reads with equal coefficients the tensor, and per dimension its extent, index, and the range of constants."""


@dataclass(frozen=True)
class TileLoops:
    """The results that depend on the tile loops alone, not on reduction tiles.

    ``boxes``: by number of enclosing tile loops, each stage's box; ``options``: of each operand, the load levels as in
    ``evaluate.LoadOption``. Per tile: ``steps``, its issue cycles, ``stored`` vectors, and the ``stores`` of these.
    """

    tiles: int
    boxes: list[dict[EditedStage, tuple[int, ...]]]
    options: list[list[tuple[int, int, int, int]]]
    steps: int
    stored: int
    stores: int


class TilingModel:
    """Footprints and issue cycles of a group's tiles, with reductions tiled along the axes of a choice of ``CUTS``.

    ``narrow``: tiles need not have whole vectors of the memories that the result is loaded to. ``separate``: groups of
    vectors that form one stored vector are not contiguous in their buffer (``contiguous_operands.py``).
    """

    def __init__(self, problem: TilingProblem, cut: str, narrow: bool = False, separate: bool = False) -> None:
        self.problem = problem
        self.narrow = narrow
        target, config = problem.target, problem.target.config
        self.config, self.acc_memory, self.reduction_lanes = config, target.acc, target.data.vector_type.cols
        self.resets = 0 if GEMM_BEGIN in config.extensions else 1  # per accumulator of a GEMM
        plan = self.plan = assign_layouts(problem.schedule, config)
        lanes = plan.layouts
        self.physical: dict[EditedStage, PhysicalLayout] = {}
        self.adjoining: dict[EditedStage, bool] = {}
        for stage in (*problem.computing, *(operand.stage for operand in problem.operands)):
            element = target.vector_type_in(stage.state.scope)
            shape, along = stage.tensor.shape, lanes[stage.tensor]
            form = scratchpad_layout(
                shape, along, element, split_dims_of(problem.schedule, shape, along), dilation_of(stage, along), config
            )
            decides = (
                not (narrow or problem.has_user_loops)
                and stored_source(stage, target) is not None
                and has_contiguous_groups(form)
            )
            if decides:
                self.adjoining[stage] = not separate
            self.physical[stage] = contiguous_layout(form, stage, lanes, config) if decides and not separate else form
        self.in_dram = {operand.stage: self._dram_layout(operand.stage) for operand in problem.operands}
        self.sink_in_dram = self._sink_layout(problem.computing[-1])
        self.strides = {each.stage: _strides_of_copy(each.stage.state.computation) for each in problem.operands}
        """Per operand, the dimensions that are read with a stride above 1, with the stride."""
        self.sink_axes = problem.sink.state.computation.axes
        self.full = tuple(axis.extent for axis in self.sink_axes)
        self.lanes_of_sink = lanes[problem.sink.tensor]
        self.rows_of_weights: set[int | None] = set()
        for reader in problem.schedule.consumers(problem.sink.tensor):
            product = plan.gemms[reader.tensor]
            if product is not None and product.weight.tensor is problem.sink.tensor:
                self.rows_of_weights.add(dim_indexed_by(product.weight, product.column, largest_block(config)))
        self.gemms = [stage for stage in problem.computing if plan.gemms[stage.tensor] is not None]
        whole = problem.schedule.state

        def computation_of(tensor: Tensor) -> Computation | None:
            producer = whole.def_use.producers.get(tensor)
            return None if producer is None else whole.stages[producer].computation

        self._data_cells = NonzeroAnalysis(computation_of)
        self.shares = {stage: self._share_with_data(stage) for stage in self.gemms}
        possible = [sum_in_place(problem.schedule, each) for each in problem.computing]
        loads = [operand.stage for operand in problem.operands]
        sums = [
            each
            for each in possible
            if each and each.brought in self.gemms and each.begun in (*problem.computing, *loads)
        ]
        self.not_reset = {each.brought for each in sums}
        """GEMMs that accumulate onto another addend, so that their accumulators are not reset."""
        self.elided_adds = {each.added for each in sums}
        self.addends = {each.begun for each in sums} & set(loads)
        """Operands that GEMMs accumulate onto, so that each tile must load them again."""
        self.liveness = self._liveness(problem.computing)
        self.has_diagonals = any(each.diagonal for stage in self.gemms if (each := plan.gemms[stage.tensor]))
        self._counts: dict[tuple[EditedStage, tuple[int, ...]], int] = {}
        self.capacity = {name: memory.depth - problem.reserved.get(name, 0) for name, memory in target.memories.items()}
        """Vectors of each scratchpad that the tiles may take."""
        self.loaded_only: dict[EditedStage, list[EditedStage]] = {}  # ALU stages that read loaded operands only
        for stage in problem.computing:
            state = stage.state
            producers = [problem.schedule.producer(read.tensor) for read in state.computation.reads]
            own = [operand.stage for operand in problem.operands if stage in operand.consumers]
            if own and stage not in self.gemms and not state.computation.reduce_axes and not {*producers} - {*own}:
                self.loaded_only[stage] = own
        self.inner: dict[EditedStage, Axis] = {}
        self.reduction: dict[EditedStage, Axis] = {}
        for stage in self.gemms:
            gemm = plan.gemms[stage.tensor]
            assert gemm is not None
            if gemm.inner is not None and not gemm.diagonal:
                self.inner[stage] = gemm.inner
        for stage in problem.computing:
            axes, match = stage.state.computation.reduce_axes, plan.gemms[stage.tensor]
            if match is not None and match.turns is not None:
                continue  # a layout conversion sums over all permutation matrices at once
            inner = self.inner.get(stage)
            if inner is not None and inner.extent > self.reduction_lanes and cut == "channels":
                self.reduction[stage] = inner
            elif axes:  # the axis along lanes counts by blocks
                blocks = ceil(inner.extent / self.reduction_lanes) if inner is not None else 1
                self.reduction[stage] = max(axes, key=lambda axis: axis.extent if axis is not inner else blocks)
        for stage in problem.computing:  # not if stages are attached to its loops, or its operands are computed, too
            read = (problem.schedule.producer(each.tensor) for each in stage.state.computation.reads)
            if problem.schedule.attached(stage) or any(producer in problem.computing for producer in read):
                self.reduction.pop(stage, None)
        self.single: dict[EditedStage, list[Axis]] = {}  # other reduction axes, tiled by their granularity
        for stage, chosen in self.reduction.items() if cut == "every" and not problem.has_user_loops else ():
            state = stage.state
            unsplit = {root.source for root in state.roots if root in state.leaves}
            self.single[stage] = [a for a in state.computation.reduce_axes if a is not chosen and a in unsplit]
        self.planes = DTYPES[problem.sink.tensor.dtype].bits // 8 if problem.sink.tensor.dtype != "bool" else 1
        self.ends_in_parts = self.planes == 1 and not any(map(self._sums_windows, self.gemms))
        self._loads: dict[tuple[EditedStage, tuple[int, ...]], tuple[float, int]] = {}
        self._tile_loops_known: dict[tuple[tuple[int, ...], tuple[int, ...]], TileLoops] = {}
        self._boxes: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[EditedStage, tuple[int, ...]]] = {}
        self._tensors = [(stage, stage.tensor) for stage in self.physical]
        self.walk = [
            self._reads(stage)
            for stage in (*reversed(problem.computing), *(operand.stage for operand in problem.operands))
        ]

    def _dram_layout(self, stage: EditedStage) -> PhysicalLayout:
        """The layout in DRAM of the tensor that an operand loads."""
        form = self.physical[stage]
        source = next((read.tensor for read in stage.state.computation.reads), None)
        if source is None or self.problem.schedule.producer(source) is None or form.contiguous:
            return form
        return self._grouped(form, source)

    def _sink_layout(self, stage: EditedStage) -> PhysicalLayout:
        """The layout in DRAM of what the sink stores, whose values ``stage`` computes."""
        return self._grouped(self.physical[stage], self.problem.sink.tensor)

    def _grouped(self, form: PhysicalLayout, source: Tensor) -> PhysicalLayout:
        """The layout of a tensor stored by the program: vectors of the widest memory that reads it are contiguous."""
        if form.lanes.conversions is not None:
            return replace(form, held=0)
        scopes = (DRAM, *(each.state.scope for each in self.problem.schedule.consumers(source)))
        widest = max(self.problem.target.vector_type_in(scope).cols for scope in scopes)
        if self.is_data(source):
            widest = max(widest, self.reduction_lanes)
        return replace(form, group=max(widest // form.element.cols, 1))

    def _sums_windows(self, stage: EditedStage) -> bool:
        """Whether a GEMM reduces over more than channels: the epilogue is not split through windows."""
        inner = self.inner.get(stage)
        return any(axis is not inner and axis.extent > 1 for axis in stage.state.computation.reduce_axes)

    def grain(self, stage: EditedStage, axis: Axis) -> int:
        """Granularity of tiles of a reduction axis: 1, or along lanes a vector, or a group of contiguous ones."""
        if axis is not self.inner.get(stage):
            return 1
        operands = (each.stage for each in self.problem.operands if stage in each.consumers)
        return self.reduction_lanes * max(
            (form.group for each in operands if (form := self.physical[each]).contiguous), default=1
        )

    def is_data(self, tensor: Tensor) -> bool:
        """Whether a tensor is the data operand of a GEMM, perhaps through a padding stage."""
        for reader in self.problem.schedule.consumers(tensor):
            product = self.plan.gemms[reader.tensor]
            if product is not None and product.data.tensor is tensor:
                return True
            zeros = PAD_VALUE not in self.config.extensions
            if product is None and is_padding(reader, with_zeros=zeros) and self.is_data(reader.tensor):
                return True
        return False

    def boxes(self, tile: Sequence[int], reduce_tile: dict[EditedStage, int]) -> dict[EditedStage, tuple[int, ...]]:
        """The extents of each stage's box for one tile of the sink."""
        key = (tuple(tile), tuple(reduce_tile.values()))
        known = self._boxes.get(key)
        if known is not None:
            return known
        need: dict[Tensor, list[int]] = {self.problem.computing[-1].tensor: list(tile)}
        for stage, made, reductions, reads in self.walk:
            extents = need.get(made)
            if extents is None:
                continue
            size = list(extents)
            for extent, reduced, single in reductions:
                if reduce_tile and single:
                    size.append(single)
                else:
                    size.append(reduce_tile.get(stage, extent) if reduced else extent)
            for tensor, dimensions in reads:
                box = []
                for extent, terms, spread in dimensions:
                    reach = extent if terms is ANYWHERE else 1 + spread
                    for n, factor in terms:
                        reach += factor * (size[n] - 1)
                    box.append(reach if reach < extent else extent)
                before = need.get(tensor)
                need[tensor] = box if before is None else list(map(max, before, box))
        boxes = {stage: tuple(need[tensor]) for stage, tensor in self._tensors if tensor in need}
        self._boxes[key] = boxes
        return boxes

    def count(self, stage: EditedStage, box: Sequence[int]) -> int:
        """The number of vectors of a stage's box."""
        key = stage, tuple(box)
        known = self._counts.get(key)
        if known is None:
            physical = self.physical[stage]
            known = prod(physical.blocks(dim, 0, extent) for dim, extent in enumerate(box))
            self._counts[key] = known
        return known

    def computing_elements(self, tile: Sequence[int]) -> int:
        """The greatest number of accumulators that are live at a time in a tile."""
        boxes = self.boxes(tile, {})
        most = live = 0
        for stage, freed, grows in self.liveness:
            live += self.count(stage, boxes[stage]) if grows else 0
            most = max(most, live)
            live -= sum(self.count(each, boxes[each]) for each in freed)
        return most

    def _liveness(self, computing: Sequence[EditedStage]) -> list[tuple[EditedStage, list[EditedStage], bool]]:
        """Each stage, the stages whose values die after it, and whether it needs accumulators of its own."""
        lives: list[tuple[EditedStage, list[EditedStage], bool]] = []
        producers = {tensor: stage for stage in computing for tensor in stage.state.tensors}
        for stage in computing:
            if stage in self.not_reset or stage in self.elided_adds:
                lives.append((stage, [], False))
                continue
            read = dict.fromkeys(producers.get(each.tensor) for each in stage.state.computation.reads)
            last = [
                each
                for each in read
                if each is not None and each is not stage and self.problem.schedule.consumers(each.tensor) == [stage]
            ]
            over = not stage.state.computation.reduce_axes and bool(last)
            lives.append((stage, last[1:] if over else last, not over))
        return lives

    def least_cost(self, tile: tuple[int, ...]) -> float:
        """Lower bound on the cycles of all tiles: those of the compute unit."""
        tiles = prod(ceil(full / size) for full, size in zip(self.full, tile, strict=True))
        return least_cycles(self.config, tiles, self._steps_of_all(self.boxes(tile, {})), product=bool(self.gemms))

    def least_cost_of_reduction_tiles(self, tile: tuple[int, ...], inner: Mapping[EditedStage, int]) -> float:
        """Lower bound on the cycles added by tiling reductions of GEMMs with these tile sizes."""
        if not self.gemms:
            return 0
        parts = max((self.reduction_tiles(stage, size) for stage, size in inner.items()), default=1)
        tiles = prod(ceil(full / size) for full, size in zip(self.full, tile, strict=True))
        return tiles * parts * (REDUCTION_TILE_OVERHEAD if parts % WEIGHT_SLOTS else PREFETCHED_REDUCTION_TILE_OVERHEAD)

    def reduction_tiles(self, stage: EditedStage, size: int) -> int:
        """The number of reduction tiles of a stage, with tiles of this size."""
        others = (ceil(axis.extent / self.grain(stage, axis)) for axis in self.single.get(stage, ()))
        return ceil(self.reduction[stage].extent / size) * prod(others)

    def least_cost_in_order(self, tile: tuple[int, ...], order: tuple[int, ...], least: float) -> float:
        """Lower bound on the cycles with this loop order: ``least`` of the compute unit, or those of the bus."""
        if not self.gemms:
            return least
        loops, config = self.tile_loops(tile, order), self.config
        moved = loops.tiles * loops.stored * config.out_element_bytes * self.planes
        for operand, options in zip(self.problem.operands, loops.options, strict=True):
            scope, dtype = operand.stage.state.scope, operand.stage.tensor.dtype
            if self.problem.target.memories[scope].unit is Unit.LOAD:
                moved += min(options)[0] * loaded_bytes(config, scope, dtype)
        return least_cycles_of_transfers(least, moved / config.bus_bytes)

    def _reads(self, stage: EditedStage) -> _Reads:
        """A stage's reads in the form that ``boxes`` walks over."""
        computation = stage.state.computation
        chosen, single = self.reduction.get(stage), self.single.get(stage, ())
        reductions = [
            (axis.extent, axis is chosen, min(self.grain(stage, axis), axis.extent) if axis in single else 0)
            for axis in computation.reduce_axes
        ]
        position = {axis: n for n, axis in enumerate((*computation.axes, *computation.reduce_axes))}
        constants: dict[tuple[Tensor, tuple[Terms, ...]], list[list[int]]] = {}
        for read in computation.reads:
            indices: list[Terms] = []
            offsets: list[int] = []
            for index in read.indices:
                affine = as_affine(index)
                offsets.append(0 if affine is None else affine.const)
                if reads_data(index):
                    indices.append(ANYWHERE)
                elif affine is None:  # a factor so large that the dimension's extent bounds the box
                    indices.append(tuple((position[axis], 1 << 30) for axis in axes_of(index)))
                else:
                    indices.append(tuple((position[axis], abs(factor)) for axis, factor in affine.coefficients.items()))
            constants.setdefault((read.tensor, tuple(indices)), []).append(offsets)
        reads = []
        for (tensor, terms), offsets_of in constants.items():  # reads with equal coefficients share a box
            spreads = [max(along) - min(along) for along in zip(*offsets_of, strict=True)]
            reads.append((tensor, list(zip(tensor.shape, terms, spreads, strict=True))))
        return stage, stage.tensor, reductions, reads

    def tile_loops(self, tile: tuple[int, ...], order: tuple[int, ...]) -> TileLoops:
        """The results that depend on the tile loops alone."""
        known = self._tile_loops_known.get((tile, order))
        if known is not None:
            return known
        trips = [ceil(self.full[dim] / tile[dim]) for dim in order]
        boxes = [self.boxes(self._tile_at(tile, order, level), {}) for level in range(len(order) + 1)]
        options = []
        for operand in self.problem.operands:
            stage = operand.stage
            counts = [self.count(stage, boxes[n][stage] if n else stage.tensor.shape) for n in range(len(order) + 1)]
            levels = range(len(order) if stage in self.addends else 0, len(order) + 1)
            options.append([(prod(trips[:n]) * counts[n], -n, counts[n], n) for n in levels])
        last = self.problem.computing[-1]
        box = boxes[-1][last]
        stores = loads_of_box(self.sink_in_dram, box)
        loops = TileLoops(prod(trips), boxes, options, self._steps_of_all(boxes[-1]), self.count(last, box), stores)
        self._tile_loops_known[tile, order] = loops
        return loops

    def load_of(self, stage: EditedStage, box: tuple[int, ...], count: int) -> tuple[float, int]:
        """Cycles of one load of an operand's box, bound by the bus or by memory latency, and its number of LOADs."""
        known = self._loads.get((stage, box))
        if known is None:
            config, form = self.config, self.in_dram[stage]
            size = loaded_bytes(config, stage.state.scope, stage.tensor.dtype)
            steps = self.strides[stage]
            instructions = loads_of_box(form, box, steps)
            bordered = self._bordered(stage)
            data = tuple(min(extent, bordered.get(dim, extent)) for dim, extent in enumerate(box))
            of_data = self.count(stage, data) if bordered else count
            cycles = load_cycles(config, form, size, data, of_data, steps, bordered, count - of_data)
            if steps:  # strided loads are many short LOADs, so fetching the instructions counts, too
                cycles += instructions * INSTRUCTION_BYTES / config.bus_bytes
            known = cycles, instructions
            self._loads[stage, box] = known
        return known

    def _bordered(self, stage: EditedStage) -> dict[int, int]:
        """The dimensions along which LOADs pad an operand, with the extent of the data."""
        cells = self._data_cells(stage.tensor) or ()
        ends = {dim: held for dim, held in enumerate(cells) if held is not None and not (held[0] and held[-1])}
        return {dim: held.rindex(1) - held.index(1) + 1 for dim, held in ends.items() if 1 in held}

    def _steps_of_all(self, boxes: dict[EditedStage, tuple[int, ...]]) -> int:
        return sum(self._steps(stage, boxes[stage]) for stage in self.problem.computing)

    def _steps(self, stage: EditedStage, box: Sequence[int]) -> int:
        """Issue cycles of the compute unit for one box of a stage."""
        count = self.count(stage, box)
        if stage in self.elided_adds:
            return 0
        if stage not in self.gemms:
            depth = prod(axis.extent for axis in stage.state.computation.reduce_axes)
            return count * self.issue_cycles(stage) * depth
        product = self.plan.gemms[stage.tensor]
        assert product is not None, f"{stage.name} is no GEMM"
        steps = product.steps(stage.state.computation, self.config) * self.shares[stage]
        return count * (max(round(steps), 1) + (self.resets if stage not in self.not_reset else 0))

    def _share_with_data(self, stage: EditedStage) -> float:
        """The fraction of a GEMM's multiply-accumulates whose operands are both data, not padding."""
        product = self.plan.gemms[stage.tensor]
        assert product is not None, f"{stage.name} is no GEMM"
        shares = (
            nonzero_fraction(each.indices, self._data_cells(each.tensor)) for each in (product.data, product.weight)
        )
        return prod(shares)

    def issue_cycles(self, stage: EditedStage) -> int:
        """Issue cycles of a vector of an ALU stage, per point of its reduction."""
        rescaling = rescaling_of(stage.state.computation)
        if rescaling is not None and not missing_extensions(rescaling, self.config):
            return rescale_issue_cycles(rescaling)
        return alu_issue_cycles(AluOp.ADD, immediate=False)

    def root(self, stage: EditedStage, axis: Axis | None = None) -> LoopAxis:
        """The loop of a reduction axis before any split; by default of the tiled one."""
        axis = self.reduction[stage] if axis is None else axis
        return next(root for root in stage.state.roots if root.source is axis)

    def _tile_at(self, tile: Sequence[int], order: Sequence[int], level: int) -> tuple[int, ...]:
        """The sink's box in one iteration of the ``level`` outermost tile loops."""
        fixed = set(order[:level])
        return tuple(tile[dim] if dim in fixed else self.full[dim] for dim in range(len(tile)))


def _strides_of_copy(computation: Computation) -> dict[int, int]:
    """By dimension, the stride with which a copy reads it, if above 1."""
    strides = {}
    for read in computation.reads:
        for dim, (axis, index) in enumerate(zip(computation.axes, read.indices, strict=False)):
            form = as_affine(index)
            if form is not None and form.coefficients.get(axis, 1) > 1:
                strides[dim] = form.coefficients[axis]
    return strides


__all__ = ["TileLoops", "TilingModel"]
