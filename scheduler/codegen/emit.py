"""The emitter: walks a partitioned nest, tracks where buffers are, and emits the instructions of each chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear, LoopVariable, floor_divide
from lathe.isa import Instruction
from lathe.scheduler.allocation.allocation import Buffer
from lathe.scheduler.codegen.chunk_memo import ChunkMemo
from lathe.scheduler.codegen.chunk_template import ChunkTemplate
from lathe.scheduler.codegen.dram_layout import DramLayout, elided_concats
from lathe.scheduler.codegen.provenance import ChunkProvenance, provenance_of
from lathe.scheduler.codegen.rule_driver import RuleDriver
from lathe.scheduler.codegen.shift_windows import WindowContents, check_shifted, moves
from lathe.scheduler.isel.chunk import BufferView
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.isel.rules.border_fill import constants_around
from lathe.scheduler.isel.select_rule import rule_for, rule_of
from lathe.scheduler.isel.statement import statement_of
from lathe.scheduler.layout.accumulate_in_place import in_place_sums
from lathe.scheduler.layout.disjoint_windows import reads_disjoint_windows
from lathe.scheduler.layout.nonzero_analysis import HeldCells, NonzeroAnalysis, cells_within
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.zero_padding_analysis import ends_with_sources
from lathe.scheduler.loop_ir.interleave_vthreads import Thread, iteration_groups
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, ChunkNode, Free, Loop, Node, PipelinedChunks, SyncNode
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin, unit_of_stage
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer


@dataclass(frozen=True)
class _Work:
    """A chunk of the nest with the rule that emits it, its role, its template and its memo."""

    stage: StageView
    rule: str
    role: str
    prepared: ChunkTemplate
    memo: ChunkMemo | None


class Emitter(RuleDriver):
    """Emits the instructions of one program."""

    classes_of_chunks = True
    """Whether chunks that differ by addresses only share their instructions (``ChunkMemo``)."""

    def __init__(
        self,
        schedule: ScheduleView,
        config: HardwareConfig,
        dram: "DramLayout",
        physical: Mapping[StageView, PhysicalLayout],
        buffers: Sequence[Buffer],
        aliases: Mapping[StageView, StageView],
    ) -> None:
        super().__init__(schedule, config, buffers)
        self.dram = dram
        self.places: dict[Tensor, BufferView] = {}
        self.physical = physical
        self.buffers = {buffer.stage: buffer for buffer in buffers if not buffer.temporary}
        self.aliases = aliases
        self.sums = in_place_sums(aliases)
        self._summed = frozenset(self.sums.values())
        self._elided = elided_concats(schedule)
        self.entries: list[tuple[Entry, Origin]] = []
        self.provenance: list[ChunkProvenance] = []
        self.part_of: dict[int, tuple[int, int]] = {}
        self.labels: list[str] = []
        self.thread, self.threads = 0, 1
        self.across_cores: set[LoopVariable] = set()
        self._turn: dict[tuple[StageView, int], int] = {}
        self._held: dict[tuple[StageView, int], WindowContents] = {}  # by stage and thread
        self.rings = {
            buffer.stage.tensor: (buffer.ring.dimension, buffer.ring.cells(buffer.slots))
            for buffer in self.buffers.values()
            if buffer.ring is not None
        }
        self._work: dict[int, _Work | None] = {}
        self._keep_zeros: dict[StageView, bool] = {}
        computations = {tensor: stage.state.computation for tensor, stage in self.producers.items()}
        self._data_cells = NonzeroAnalysis(computations.get)
        self._label_of: dict[StageView, int] = {}

    def place(self, tensor: Tensor, stage: StageView) -> BufferView | None:
        """The buffer in which a stage finds a tensor at this point: in a scratchpad, or else in DRAM."""
        return self.places.get(tensor) or self.dram.place(tensor, stage)

    def run(self, nodes: Sequence[Node], threads: list[Thread[dict[Tensor, BufferView]]] | None = None) -> None:
        """Emit a partitioned nest. Raises EmitError if no instructions compute a chunk."""
        threads = [Thread(0, {}, self.places)] if threads is None else threads
        for node in nodes:
            if isinstance(node, Loop):
                self.across_cores |= {node.variable} if node.across_cores else set()
                for inside in iteration_groups(threads, node, dict):
                    self.run(node.body, inside)
                continue
            for thread in threads:
                self.thread, self.threads, self.places = thread.number, thread.of, thread.own
                if isinstance(node, Alloc):
                    self.allocate(node, thread.environment)
                elif isinstance(node, ChunkNode):
                    self.chunks(node, thread.environment)
                elif isinstance(node, SyncNode):
                    if node.signal.kind != "barrier" or thread is threads[0]:  # one barrier for all threads
                        self.signal(node, thread.environment)
                elif isinstance(node, AdvanceWindow):
                    self.advance_window(node, thread.environment)
                elif isinstance(node, PipelinedChunks):
                    self.parts(node, thread.environment)
                else:
                    assert isinstance(node, Free), f"{type(node).__name__} in a partitioned nest"

    def allocate(self, node: Alloc, environment: Mapping[LoopVariable, int]) -> None:
        """Bind the stage's tensor to its buffer. Raises EmitError for a buffer that the machine does not support."""
        if node.stored is not None:
            self._acquire_stored(node.stored)
            return
        stage = node.placement.stage
        low = tuple([each.value(environment) for each in node.low if isinstance(each, Linear)])
        extent = tuple([each.value(environment) for each in node.extent if isinstance(each, Linear)])
        owner = self.aliases.get(stage)
        data = cells_within(self._data_cells(stage.tensor), low, extent)
        if owner is not None:
            base = self.places[owner.tensor].base
        else:
            base = self._next_base(stage)
            window = node.placement.window
            if stage.state.reuse == "shift" and window is not None:
                check_shifted(stage, self, window.dimension)
                self._held.pop((stage, self.thread), None)
            elif stage.tensor in self.rings:
                dimension, cells = self.rings[stage.tensor]
                extent = (*extent[:dimension], cells, *extent[dimension + 1 :])
                data = None
                size = self.physical[stage].strides(low, extent)[1]
                assert size <= self.buffers[stage].size_per_thread, f"ring of {stage.name} overflows: {size} vectors"
        self.places[stage.tensor] = self._place(stage, base, low, extent, data)

    def _acquire_stored(self, stored: UserBuffer) -> None:
        if stored.scope == DRAM:
            return  # it is in a segment
        base = self._next_base(stored.users[0])
        for stage in stored.users:
            self.places[stage.tensor] = self._place(stage, base, (0,) * len(stored.shape), stored.shape)

    def shape_of(self, stage: StageView) -> tuple[int, ...]:
        """The shape of the user buffer that a stage is stored in."""
        buffer = self.place(stage.tensor, stage)
        assert buffer is not None, f"{stage.name} is stored nowhere"
        return buffer.physical.view

    def _next_base(self, stage: StageView) -> int:
        """The base address of this thread's buffer, in the next of its slots."""
        buffer = self.buffers[stage]
        assert self.thread < buffer.threads, f"thread {self.thread} of {stage.name}, which has {buffer.threads}"
        base = buffer.base + self.thread * buffer.size_per_thread
        if buffer.ring is not None:
            return base
        turn = self._turn[stage, self.thread] = self._turn.get((stage, self.thread), -1) + 1
        return base + turn % buffer.slots * buffer.size

    def _place(
        self, stage: StageView, base: int, low: tuple[int, ...], extent: tuple[int, ...], data: HeldCells | None = None
    ) -> BufferView:
        keeps = self._keep_zeros.get(stage)
        state = stage.state
        if keeps is None:
            keeps = state.scope != ACC and constants_around(state.computation.bodies[0]) <= {0}
            keeps = keeps and ends_with_sources(stage, self.dram.lanes[stage.tensor])
            self._keep_zeros[stage] = keeps
        if keeps:
            sources = (self.place(read.tensor, stage) for read in state.computation.reads)
            keeps = all(source is not None and source.zero_padded for source in sources)
        return BufferView(state.scope, self.physical[stage], base, low, extent, zero_padded=keeps, data=data)

    def advance_window(self, node: AdvanceWindow, environment: Mapping[LoopVariable, int]) -> None:
        """Advance the window of a reuse buffer; in a shifted buffer, emit the moves of the cells that stay in it."""
        stage, window = node.placement.stage, node.placement.window
        if stage.state.reuse != "shift" or stage.state.storage is not None or window is None:
            return
        low = tuple(each.value(environment) for each in node.low if isinstance(each, Linear))
        extent = tuple(each.value(environment) for each in node.extent if isinstance(each, Linear))
        data = cells_within(self._data_cells(stage.tensor), low, window.shape)
        place = replace(self.places[stage.tensor], low=low, extent=window.shape, data=data)
        assert place.physical.strides(low, window.shape)[1] <= self.buffers[stage].size, f"{stage.name} overflows"
        now = WindowContents(tuple((first, first + count) for first, count in zip(low, extent, strict=True)), place)
        before = self._held.get((stage, self.thread))
        for chunk in [] if before is None else moves(stage, self, window.dimension, before, now):
            self.free_temporaries()
            offsets = {variable.name: value for variable, value in environment.items()}
            instructions = self.emit(chunk.pragma, replace(chunk, offsets=offsets))
            self._add(instructions, stage, self._label(stage), environment, offsets)
        self._held[stage, self.thread] = now
        self.places[stage.tensor] = place

    def folded(self, tensor: Tensor, index: list[Linear]) -> list[Linear]:
        """An index of a tensor as an index of its buffer: modulo a ring, or by the map of a user buffer."""
        producer = self.producers.get(tensor)
        if producer is not None and producer.state.storage is not None:
            return producer.state.storage.in_loops(index)
        if tensor not in self.rings:
            return index
        dimension, size = self.rings[tensor]
        cell = index[dimension] - floor_divide(index[dimension], size) * size
        return [*index[:dimension], cell, *index[dimension + 1 :]]

    def chunks(self, node: ChunkNode, environment: Mapping[LoopVariable, int]) -> None:
        """Emit a chunk of the nest. Raises EmitError if no instructions compute it."""
        if id(node) not in self._work:
            self._work[id(node)] = self._work_of(node)
        work = self._work[id(node)]
        if work is None:
            return
        stage, memo = work.stage, work.memo
        label = self._label(stage)
        variant = memo.variant(self, environment) if memo is not None else None
        if memo is not None and variant is not None:
            instructions = memo.emitted(variant, self)
            if instructions is not None:
                if self.zeros is not None:
                    self.zeros.advance(instructions)
                offsets = {loop.name: value for loop, value in environment.items()}
                self._add(instructions, stage, label, environment, offsets, len(self.provenance))
                self.provenance.append(memo.provenance(variant, offsets))
                return
        self.free_temporaries(stage)
        for chunk in work.prepared.chunks(self, node, environment, work.rule, work.role):
            self.pool.placed.clear()
            self._tried.clear()
            question = None if self.zeros is None else self.zeros.new_query()
            instructions = self.emit(work.rule, chunk)
            if memo is not None and variant is not None and all(RULES[rule].by_address for rule in self._tried):
                memo.note(variant, instructions, self.pool.placed, question)
            self._add(instructions, stage, label, environment, chunk.offsets, len(self.provenance))
            self.provenance.append(provenance_of(chunk, stage.state.computation.axes))

    def parts(self, node: PipelinedChunks, environment: Mapping[LoopVariable, int]) -> None:
        """Emit pipelined chunks, all slices of each, and record the slice that each emitted chunk belongs to."""
        end = len(self.provenance)
        for chunk in node.chunks:
            for n, part in enumerate(chunk):
                first = len(self.provenance)
                self.chunks(part, environment)
                self.part_of.update(dict.fromkeys(range(first, len(self.provenance)), (end, n)))

    def _work_of(self, node: ChunkNode) -> "_Work | None":
        """The work for a chunk, independent of the values of enclosing loops; None if nothing is to be emitted."""
        stage = node.placement.stage
        rule, role = stage.state.rule, str(node.role)
        if stage in self._summed or (role == "init" and stage in self.aliases):
            return None  # a GEMM accumulates in place, into the cells of the other addend
        if stage in self._elided:
            return None
        assert rule is not None, f"no rule has been chosen for {stage.name}"
        if not RULES[rule].separate_init:
            if role == "init" and node.whole_reduction:
                return None
            if role == "init":
                rule = rule_for(statement_of(stage, role))
            elif node.whole_reduction:
                role = "reduce"
        prepared = ChunkTemplate(node, self)
        memoisable = self.classes_of_chunks and ChunkMemo.possible(prepared, node)
        memo = ChunkMemo(prepared, node, role) if memoisable else None
        return _Work(stage, rule, role, prepared, memo)

    def _add(
        self,
        instructions: list[Instruction],
        stage: StageView,
        label: int,
        environment: Mapping[LoopVariable, int],
        offsets: Mapping[str, int],
        number: int = -1,
    ) -> None:
        """Append the instructions of a chunk; ``number`` is the position of its provenance."""
        thread = self.thread if self.threads > 1 else None
        across = self.across_cores
        core = tuple(value for variable, value in environment.items() if variable in across) if across else ()
        origin = Origin(label, stage.name, offsets, thread, core, number)
        self.entries += [(each, origin) for each in instructions]

    def signal(self, node: SyncNode, environment: Mapping[LoopVariable, int]) -> None:
        """Append a barrier or a manual token to the stream."""
        stage = node.placement.stage
        offsets = {variable.name: value for variable, value in environment.items()}
        origin = Origin(0, stage.name, offsets, self.thread if self.threads > 1 else None)
        self.entries.append((Marker(node.signal, unit_of_stage(stage), origin), origin))

    def _label(self, stage: StageView) -> int:
        """The number of a stage's label."""
        found = self._label_of.get(stage)
        if found is None:
            found = self._label_of[stage] = self._new_label(stage)
        return found

    def _new_label(self, stage: StageView) -> int:
        seen: set[StageView] = set()
        while True:  # to the stored stage that it is computed for: the enclosing one, or the consumer of a buffer
            seen.add(stage)
            consumers = [each for each in self.schedule.consumers(stage.tensor) if each not in seen]
            if (pooled := self._before_pool(stage)) is not None:
                stage = pooled
                break
            if stage.state.attachment is not None:
                stage = self.schedule.at(stage.state.attachment)
            elif stage.state.scope != DRAM and consumers:
                stage = consumers[0]
            else:
                break
        if stage.name not in self.labels:
            self.labels.append(stage.name)
        return self.labels.index(stage.name)

    def _before_pool(self, stage: StageView) -> StageView | None:
        """The stage whose result a pooling stage reads in accumulators, if a stage is for that: it is a layer, too."""
        seen: set[StageView] = set()
        while stage.state.scope != DRAM and stage not in seen:
            seen.add(stage)
            consumers = self.schedule.consumers(stage.tensor)
            if len(consumers) != 1:
                return None
            computed = stage.state.scope == ACC and rule_of(stage) != "dma"
            if computed and consumers[0].state.computation.reduce_axes and reads_disjoint_windows(consumers[0], stage):
                return stage
            stage = consumers[0]
        return None
