"""The stream validator: checks an instruction stream against the tensor program, chunk by chunk.

Instructions are executed in program order on random samples. After the last instruction of a chunk, each element that
the chunk computes must be in some lane that it has written; the lane is identified by its column of values, without
address arithmetic. In accumulators the values are then replaced by fresh ones, so that an instruction that reads a
wrong cell gets a wrong operand. At the end every output must be in DRAM where the host CPU reads it.

This is translation validation (Pnueli, Siegel and Singerman, 1998), with random testing of each expression on fresh
operands instead of proofs.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lathe.configs.blas_threads import one_blas_thread
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.layout.dilation_compaction import dilation_of, without_cells
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.schedule_ir.memories import ACC, OPERANDS, SCRATCHPADS, TABLES
from lathe.validation.accumulator_encoding import decoded_columns, encoded_like
from lathe.validation.chunk_defs import CompleteElements, complete_elements, elements_of
from lathe.validation.dram_contents import output_bytes, stored_bytes
from lathe.validation.expected import Expectation, ExpectedTensor
from lathe.validation.fresh_values import ReplacedLanes
from lathe.validation.liveness import live_elements
from lathe.validation.machine import SampledMachine, Written
from lathe.validation.report import Report, element_text
from lathe.validation.sampling import Ints, Sampler

SAMPLES = 16
ENCODED = (ACC, TABLES)
"""Scratchpads that hold values of one type in several encodings (32 bits; signed or unsigned bytes)."""


def validate_stream(compiled: Compiled, *, samples: int = SAMPLES, seed: int = 0) -> None:
    """Raise ValidationError for the first chunk that does not compute its elements, or a wrong output in DRAM."""
    sampler = Sampler(samples, seed)
    with one_blas_thread():
        expectation = Expectation(compiled, sampler)
        _Validation(compiled, expectation, SampledMachine(compiled.program, samples, seed), sampler).run()


@dataclass(frozen=True)
class _ExecutedChunk:
    """A chunk whose last ``instruction`` was executed, what it has written, and the elements to look for in that."""

    number: int
    instruction: int
    chunk: ChunkProvenance
    expected: ExpectedTensor
    elements: Ints
    written: Sequence[Written]
    goes_on: bool  # whether reductions of other elements, initialised together with these, continue


@dataclass(frozen=True)
class _Content:
    """Vectors of a scratchpad, by address, with the values of their lanes: ``columns`` (samples, vectors * lanes)."""

    memory: str
    vectors: Ints
    lanes: int
    columns: NDArray[np.int64]


def _gaps(compiled: Compiled) -> dict[Tensor, NDArray[np.bool_]]:
    """The elements that compacted buffers do not store, by tensor: no GEMM reads them."""
    layouts = assign_layouts(compiled.schedule, compiled.program.config).layouts
    dilations = ((stage.tensor, dilation_of(stage, layouts[stage.tensor])) for stage in compiled.schedule.stages)
    return {tensor: without_cells(gaps, tensor.shape) for tensor, gaps in dilations if gaps}


class _Validation:
    def __init__(self, compiled: Compiled, expectation: Expectation, machine: SampledMachine, sampler: Sampler) -> None:
        self.compiled = compiled
        self.expectation = expectation
        self.machine = machine
        self.sampler = sampler
        self.report = Report(compiled, expectation, sampler)
        self.scope = {tensor: stage.state.scope for stage in compiled.schedule.stages for tensor in stage.state.tensors}
        self.gaps = _gaps(compiled)
        self.stored = stored_bytes(compiled)
        self.order: list[int] = []  # chunks in the order of their last instructions
        self.open: dict[Tensor, list[Written]] = {}  # reductions: what was written since their initialisation
        self.updated: set[Tensor] = set()  # reductions that were updated since their initialisation
        self.replaced = ReplacedLanes()
        self.elided: dict[Tensor, deque[int]] = {}  # initialisations without instructions, as chunk numbers

    def run(self) -> None:
        self._fill_dram()
        origins = self.compiled.origins
        last = {origin.chunk: number for number, origin in enumerate(origins) if origin.chunk >= 0}
        self.order = sorted(last, key=lambda chunk: last[chunk])
        for number, chunk in enumerate(self.compiled.chunks):
            if chunk.role == "init" and number not in last:
                self.elided.setdefault(chunk.tensor, deque()).append(number)
        complete = complete_elements(self.compiled.chunks, self._with_elided())
        written: dict[int, list[Written]] = {chunk: [] for chunk in last}
        for number, (instruction, origin) in enumerate(zip(self.compiled.program.instructions, origins, strict=True)):
            with self._original_values(origin.chunk):
                cells = self.machine.run(number, instruction)
            if origin.chunk >= 0:
                is_last = last[origin.chunk] == number
                written[origin.chunk] += cells if is_last else map(self._with_content, cells)
                if is_last:
                    self._check(origin.chunk, number, complete.get(origin.chunk), written.pop(origin.chunk))
        self._check_outputs()

    def _with_elided(self) -> list[int]:
        """The order of chunks with initialisations that have no instruction, each before its first update."""
        order: list[int] = []
        elided = {tensor: deque(numbers) for tensor, numbers in self.elided.items()}
        for number in self.order:
            waiting = elided.get(self.compiled.chunks[number].tensor)
            while waiting and waiting[0] < number:
                order.append(waiting.popleft())
            order.append(number)
        return order

    def _original_values(self, number: int) -> AbstractContextManager[None]:
        """Context in which lanes of an update's tensor have their original values (``ReplacedLanes``)."""
        chunk = self.compiled.chunks[number] if number >= 0 else None
        if chunk is None or chunk.role != "update" or chunk.tensor not in self.replaced.lanes:
            return nullcontext()
        return self.replaced.original_values(chunk.tensor, self.machine.cells(self.scope[chunk.tensor]))

    def _with_content(self, written: Written) -> Written:
        """With a copy of loaded GEMM operands, which may be overwritten before the chunk's last load."""
        if written.memory not in OPERANDS:
            return written
        return replace(written, content=self.machine.cells(written.memory)[:, written.addresses].copy())

    def _fill_dram(self) -> None:
        """Write what the host CPU provides to DRAM: instructions, micro-ops, constants and inputs."""
        program = self.compiled.program
        self.machine.put(program.insn_addr, program.encoded.reshape(1, -1))
        for segment in program.segments:
            if segment.name in program.images:
                self.machine.put(segment.address, program.images[segment.name][None])
            elif segment.role == "input":
                assert segment.layout is not None, f"segment {segment.name} has no layout"
                arrays = self.expectation.inputs[segment.tensor]
                content = [segment.layout.pack(array).reshape(-1).view(np.uint8) for array in arrays]
                self.machine.put(segment.address, np.stack(content))

    def _check(
        self, number: int, instruction: int, complete: CompleteElements | None, written: Sequence[Written]
    ) -> None:
        """Check the elements that a chunk computes; of an update, those whose reductions it completes."""
        chunk = self.compiled.chunks[number]
        elided = self.elided.get(chunk.tensor)
        while elided and elided[0] < number:
            self._since_init(self.compiled.chunks[elided.popleft()], ())
        if chunk.role in ("init", "update"):
            written = self._since_init(chunk, written)
        if chunk.role == "init":
            return
        expected = self.expectation.tensors[chunk.tensor]
        elements = elements_of(chunk) if complete is None else complete.elements
        elements = elements[~expected.free[elements]]
        if chunk.tensor in self.gaps:
            elements = elements[~self.gaps[chunk.tensor][elements]]
        goes_on = complete is not None and complete.goes_on
        executed = _ExecutedChunk(number, instruction, chunk, expected, elements, written, goes_on)
        if not len(elements):
            return
        if self.scope[chunk.tensor] in SCRATCHPADS:
            with self._original_values(number):
                self._check_cells(executed)
            if not executed.goes_on:
                self.replaced.forget(chunk.tensor)
        elif chunk.tensor in self.stored:
            self._check_bytes(executed)

    def _since_init(self, chunk: ChunkProvenance, written: Sequence[Written]) -> Sequence[Written]:
        """All writes of a reduction since its initialisation; updates that change nothing may have no instruction."""
        if chunk.role == "init" and chunk.tensor in self.updated:
            self.updated.remove(chunk.tensor)
            self.open[chunk.tensor] = []
        elif chunk.role == "update":
            self.updated.add(chunk.tensor)
        self.open.setdefault(chunk.tensor, []).extend(written)
        return self.open[chunk.tensor]

    def _check_cells(self, executed: _ExecutedChunk) -> None:
        """Check that every element is in some lane that the chunk has written; in accumulators, replace its values."""
        expected, chunk = executed.expected, executed.chunk
        scope = self.scope[chunk.tensor]
        content = self._content(scope, [each for each in executed.written if each.memory == scope])
        wanted, first = np.unique(expected.hashes[executed.elements], return_index=True)
        elements = executed.elements[first]
        decoded = decoded_columns(content.columns, chunk.tensor.dtype) if scope in ENCODED else [content.columns]
        found = np.zeros(len(wanted), np.bool_)
        matches: list[tuple[NDArray[np.bool_], Ints]] = []
        for columns in decoded:
            hashes = self.sampler.hashes(columns)
            index = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
            same = wanted[index] == hashes
            found[index[same]] = True
            matches.append((same, index))
        missing = executed.elements[np.isin(expected.hashes[executed.elements], wanted[~found])]
        if len(missing) and len(missing := self._live(executed, missing)):
            matched_lanes = np.any([same for same, _ in matches], axis=0)
            self._refuse_cells(executed, int(missing[0]), content, matched_lanes)
        if expected.onward is not expected.values:
            self._replace_values(executed, elements, content, matches)

    def _replace_values(
        self,
        executed: _ExecutedChunk,
        elements: Ints,
        content: _Content,
        matches: Sequence[tuple[NDArray[np.bool_], Ints]],
    ) -> None:
        """Replace checked values by fresh ones, in the same encoding."""
        expected = executed.expected
        columns = content.columns.copy()
        taken = np.zeros(columns.shape[1], np.bool_)
        for encoding, (same, index) in enumerate(matches):
            lanes = np.flatnonzero(same & ~taken)
            taken |= same
            new = expected.onward[:, elements[index[lanes]]].astype(np.int64)
            columns[:, lanes] = encoded_like(encoding, new, columns[:, lanes], DTYPES[expected.tensor.dtype].bits)
        cells = self.machine.cells(content.memory)
        before = cells[:, content.vectors].reshape(self.sampler.samples, -1)
        cells[:, content.vectors] = columns.reshape(self.sampler.samples, -1, content.lanes).astype(cells.dtype)
        if executed.goes_on:
            after = cells[:, content.vectors].reshape(self.sampler.samples, -1)
            lanes = (content.vectors[:, None] * content.lanes + np.arange(content.lanes)).reshape(-1)
            self.replaced.record(expected.tensor, lanes[taken], before[:, taken], after[:, taken])

    def _content(self, memory: str, written: Sequence[Written]) -> _Content:
        """The content of all vectors written in a scratchpad."""
        cells = self.machine.cells(memory)
        touched = np.zeros(cells.shape[1], np.bool_)
        for each in written:
            touched[each.addresses] = True
        vectors = np.flatnonzero(touched)
        content = cells[:, vectors].astype(np.int64)
        if any(each.content is not None for each in written):
            everything = np.arange(len(touched))
            for each in written:
                index = np.searchsorted(vectors, everything[each.addresses])
                content[:, index] = cells[:, each.addresses] if each.content is None else each.content
        columns = content.reshape(self.sampler.samples, -1)
        return _Content(memory, vectors, cells.shape[2], columns)

    def _check_bytes(self, executed: _ExecutedChunk) -> None:
        """Check that every element is in DRAM where the layout of its tensor has it."""
        expected, elements = executed.expected, executed.elements
        addresses = self.stored[expected.tensor][elements]
        wrong = elements[self._differs(addresses, expected.onward[:, elements])]
        if len(wrong) and len(wrong := self._live(executed, wrong)):
            element = int(wrong[0])
            text = element_text(expected.tensor, element)
            address = self.stored[expected.tensor][element]
            self._refuse_bytes(executed.number, executed.instruction, text, expected.onward[:, element], address)

    def _live(self, executed: _ExecutedChunk, elements: Ints) -> Ints:
        """Those of a chunk's wrong elements that are live after it."""
        later = self.order[self.order.index(executed.number) + 1 :]
        return live_elements(self.compiled, later, executed.expected.tensor, elements)

    def _differs(self, addresses: NDArray[np.int64], values: NDArray[np.generic]) -> NDArray[np.bool_]:
        """Whether each element, given by the addresses of its bytes, has other values than these in DRAM."""
        columns = np.ascontiguousarray(values)
        expected = columns.view(np.uint8).reshape(*columns.shape, -1)[:, :, : addresses.shape[1]]
        differs: NDArray[np.bool_] = (self.machine.dram[:, addresses] != expected).any(axis=(0, 2))
        return differs

    def _check_outputs(self) -> None:
        """Check that every element of every output is in DRAM where the host CPU reads it."""
        segments = {segment.tensor: segment for segment in self.compiled.program.outputs}
        for tensor in self.compiled.schedule.outputs:
            layout = self.compiled.layout_of(tensor)
            onward = self.expectation.tensors[tensor].onward.reshape(-1, *layout.shape)
            values = np.stack([layout.unpack(each).reshape(-1) for each in onward])
            addresses = output_bytes(segments[layout.tensor.name])
            wrong = np.flatnonzero(self._differs(addresses, values))
            if len(wrong):
                element = int(wrong[0])
                writer = int(self.machine.writers["dram"][addresses[element][0]])
                chunk = self.compiled.origins[writer].chunk if writer >= 0 else -1
                self._refuse_bytes(
                    chunk, writer, element_text(layout.tensor, element), values[:, element], addresses[element]
                )

    def _refuse_cells(
        self, executed: _ExecutedChunk, element: int, content: _Content, matched: NDArray[np.bool_]
    ) -> None:
        expected = executed.expected
        text = element_text(expected.tensor, element)
        others = np.flatnonzero(~matched)
        if not len(others):
            cell = f"one of the lanes of {content.memory} that the instruction writes"
            self.report.refuse(executed.number, executed.instruction, text, expected.values[:, element], cell, None)
        lane = int(others[0])
        address = int(content.vectors[lane // content.lanes])
        cell = f"{content.memory}[{address}] lane {lane % content.lanes}"
        writer = int(self.machine.writers[content.memory][address])
        self.report.refuse(executed.number, writer, text, expected.values[:, element], cell, content.columns[:, lane])

    def _refuse_bytes(
        self, chunk: int, instruction: int, text: str, expected: NDArray[np.generic], addresses: NDArray[np.int64]
    ) -> None:
        writer = int(self.machine.writers["dram"][addresses[0]])
        padded = np.zeros((self.sampler.samples, expected.dtype.itemsize), np.uint8)
        padded[:, : len(addresses)] = self.machine.dram[:, addresses][:, : padded.shape[1]]
        actual = padded.view(expected.dtype).reshape(-1).astype(np.int64)
        cell = f"byte {int(addresses[0]):#x} of dram"
        self.report.refuse(chunk, writer if writer >= 0 else instruction, text, expected, cell, actual)
