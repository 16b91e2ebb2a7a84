"""Validation of an instruction stream against the algorithm, chunk by chunk.

Instructions run, in the order of the stream, on samples. When a chunk is through, the elements that it makes must be
among what it has written: found by their columns of values, so that no address is needed to look for them. In
accumulators new values take their place then, and whoever reads them from a wrong cell gets something else. At the end
every output must stand in DRAM where the host takes it from.

The idea is translation validation (Pnueli, Siegel and Singerman, 1998), with random testing of expressions on fresh
operands in place of proofs.
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
from lathe.scheduler.layout.dilation_compaction import gaps_of, without_cells
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.schedule_ir.memories import ACC, OPERANDS, SCRATCHPADS, TABLES
from lathe.validation.accumulator_encoding import forms_of, in_form
from lathe.validation.chunk_defs import Final, elements_of, final_elements
from lathe.validation.dram_contents import output_bytes, stored_bytes
from lathe.validation.expected import Expectation, Made
from lathe.validation.fresh_values import Replaced
from lathe.validation.liveness import needed
from lathe.validation.machine import SampledMachine, Written
from lathe.validation.report import Report, element_text
from lathe.validation.sampling import Ints, Sampler

SAMPLES = 16
# Whose cells may hold values of one type in several forms: of 32 bits, or of bytes that have a sign or not.
FORMED = (ACC, TABLES)


def validate_stream(compiled: Compiled, *, samples: int = SAMPLES, seed: int = 0) -> None:
    """Raises ValidationError at the first chunk that does not make its elements, or output that is not there."""
    sampler = Sampler(samples, seed)
    with one_blas_thread():
        expectation = Expectation(compiled, sampler)
        _Validation(compiled, expectation, SampledMachine(compiled.program, samples, seed), sampler).run()


@dataclass(frozen=True)
class _Making:
    """A chunk that is through: its number, its last instruction, what it has written and the elements to be found."""

    number: int
    instruction: int
    chunk: ChunkProvenance
    made: Made
    elements: Ints
    written: Sequence[Written]
    goes_on: bool  # whether parts of other elements, begun together with these, are still to come


@dataclass(frozen=True)
class _Content:
    """Lanes of scratchpad elements: ``columns`` (samples, lanes), and where they are."""

    memory: str
    elements: Ints
    lanes: int
    columns: NDArray[np.int64]


def _gaps(compiled: Compiled) -> dict[Tensor, NDArray[np.bool_]]:
    """The elements without cells of the tensors whose buffers have gaps: products that would read them are left out."""
    lanes = assign_layouts(compiled.schedule, compiled.program.config).known
    found = ((stage.tensor, gaps_of(stage, lanes[stage.tensor])) for stage in compiled.schedule.stages)
    return {tensor: without_cells(gaps, tensor.shape) for tensor, gaps in found if gaps}


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
        self.order: list[int] = []  # chunks by when they are through
        self.begun: dict[Tensor, list[Written]] = {}  # reductions: where they have been begun and added to
        self.ended: set[Tensor] = set()  # of these, those of which elements are whole since they were begun
        self.replaced = Replaced()  # by new values
        self.starts: dict[Tensor, deque[int]] = {}  # starts of reductions that take no instruction, by number

    def run(self) -> None:
        self._fill_dram()
        origins = self.compiled.origins
        last = {origin.chunk: number for number, origin in enumerate(origins) if origin.chunk >= 0}
        self.order = sorted(last, key=lambda chunk: last[chunk])
        for number, chunk in enumerate(self.compiled.chunks):
            if chunk.role == "init" and number not in last:
                self.starts.setdefault(chunk.tensor, deque()).append(number)
        finals = final_elements(self.compiled.chunks, self._with_starts())
        written: dict[int, list[Written]] = {chunk: [] for chunk in last}
        for number, (instruction, origin) in enumerate(zip(self.compiled.program.instructions, origins, strict=True)):
            with self._old_values(origin.chunk):
                found = self.machine.run(number, instruction)
            if origin.chunk >= 0:
                through = last[origin.chunk] == number
                written[origin.chunk] += found if through else map(self._kept, found)
                if through:
                    self._check(origin.chunk, number, finals.get(origin.chunk), written.pop(origin.chunk))
        self._check_outputs()

    def _with_starts(self) -> list[int]:
        """The order of chunks with those that take no instruction, each before the first that adds to it."""
        found: list[int] = []
        starts = {tensor: deque(numbers) for tensor, numbers in self.starts.items()}
        for number in self.order:
            waiting = starts.get(self.compiled.chunks[number].tensor)
            while waiting and waiting[0] < number:
                found.append(waiting.popleft())
            found.append(number)
        return found

    def _old_values(self, chunk: int) -> AbstractContextManager[None]:
        """What a step of a reduction finds in lanes of it that hold new values."""
        made = self.compiled.chunks[chunk] if chunk >= 0 else None
        if made is None or made.role != "update" or made.tensor not in self.replaced.lanes:
            return nullcontext()
        return self.replaced.put_back(made.tensor, self.machine.cells(self.scope[made.tensor]))

    def _kept(self, written: Written) -> Written:
        """With what has been loaded for products: other loads may take its place before all of the chunk is loaded."""
        if written.memory not in OPERANDS:
            return written
        return replace(written, content=self.machine.cells(written.memory)[:, written.places].copy())

    def _fill_dram(self) -> None:
        """What the host puts there: instructions, micro-ops, constants and inputs."""
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

    def _check(self, number: int, instruction: int, final: Final | None, written: Sequence[Written]) -> None:
        """Look for what a chunk makes, unless it is only begun, or parts of it are still to come."""
        chunk = self.compiled.chunks[number]
        starts = self.starts.get(chunk.tensor)
        while starts and starts[0] < number:
            self._since_begun(self.compiled.chunks[starts.popleft()], ())
        if chunk.role in ("init", "update"):
            written = self._since_begun(chunk, written)
        if chunk.role == "init":
            return
        made = self.expectation.made[chunk.tensor]
        elements = elements_of(chunk) if final is None else final.elements
        elements = elements[~made.free[elements]]
        if chunk.tensor in self.gaps:
            elements = elements[~self.gaps[chunk.tensor][elements]]
        making = _Making(number, instruction, chunk, made, elements, written, final is not None and final.goes_on)
        if not len(elements):
            return
        if self.scope[chunk.tensor] in SCRATCHPADS:
            with self._old_values(number):
                self._check_cells(making)
            if not making.goes_on:
                self.replaced.forget(chunk.tensor)
        elif chunk.tensor in self.stored:
            self._check_bytes(making)

    def _since_begun(self, chunk: ChunkProvenance, written: Sequence[Written]) -> Sequence[Written]:
        """What has been written of a reduction, from its start on: steps that change nothing need not be taken."""
        if chunk.role == "init" and chunk.tensor in self.ended:
            self.ended.remove(chunk.tensor)
            self.begun[chunk.tensor] = []
        elif chunk.role == "update":
            self.ended.add(chunk.tensor)
        self.begun.setdefault(chunk.tensor, []).extend(written)
        return self.begun[chunk.tensor]

    def _check_cells(self, making: _Making) -> None:
        """Every element must be in some lane that the chunk has written; in accumulators new values replace it."""
        made, chunk = making.made, making.chunk
        scope = self.scope[chunk.tensor]
        content = self._content(scope, [each for each in making.written if each.memory == scope])
        wanted, first = np.unique(made.known[making.elements], return_index=True)
        elements = making.elements[first]
        forms = forms_of(content.columns, chunk.tensor.dtype) if scope in FORMED else [content.columns]
        found = np.zeros(len(wanted), np.bool_)
        matches: list[tuple[NDArray[np.bool_], Ints]] = []
        for form in forms:
            known = self.sampler.hashes(form)
            place = np.minimum(np.searchsorted(wanted, known), len(wanted) - 1)
            same = wanted[place] == known
            found[place[same]] = True
            matches.append((same, place))
        lost = making.elements[np.isin(made.known[making.elements], wanted[~found])]
        if len(lost) and len(lost := self._needed(making, lost)):
            known_lanes = np.any([same for same, _ in matches], axis=0)
            self._refuse_cells(making, int(lost[0]), content, known_lanes)
        if made.onward is not made.values:
            self._renew(making, elements, content, matches)

    def _renew(
        self, making: _Making, elements: Ints, content: _Content, matches: Sequence[tuple[NDArray[np.bool_], Ints]]
    ) -> None:
        """Replace values that have been found by new ones, in the form in which they are there."""
        made = making.made
        columns = content.columns.copy()
        taken = np.zeros(columns.shape[1], np.bool_)
        for form, (same, place) in enumerate(matches):
            lanes = np.flatnonzero(same & ~taken)
            taken |= same
            new = made.onward[:, elements[place[lanes]]].astype(np.int64)
            columns[:, lanes] = in_form(form, new, columns[:, lanes], DTYPES[made.tensor.dtype].bits)
        cells = self.machine.cells(content.memory)
        before = cells[:, content.elements].reshape(self.sampler.samples, -1)
        cells[:, content.elements] = columns.reshape(self.sampler.samples, -1, content.lanes).astype(cells.dtype)
        if making.goes_on:
            after = cells[:, content.elements].reshape(self.sampler.samples, -1)
            places = (content.elements[:, None] * content.lanes + np.arange(content.lanes)).reshape(-1)
            self.replaced.note(made.tensor, places[taken], before[:, taken], after[:, taken])

    def _content(self, memory: str, written: Sequence[Written]) -> _Content:
        """What has been written in a scratchpad, lane by lane."""
        cells = self.machine.cells(memory)
        touched = np.zeros(cells.shape[1], np.bool_)
        for each in written:
            touched[each.places] = True
        elements = np.flatnonzero(touched)
        content = cells[:, elements].astype(np.int64)
        if any(each.content is not None for each in written):
            everything = np.arange(len(touched))
            for each in written:
                places = np.searchsorted(elements, everything[each.places])
                content[:, places] = cells[:, each.places] if each.content is None else each.content
        columns = content.reshape(self.sampler.samples, -1)
        return _Content(memory, elements, cells.shape[2], columns)

    def _check_bytes(self, making: _Making) -> None:
        """Every element must be where the layout of its tensor has it."""
        made, elements = making.made, making.elements
        places = self.stored[made.tensor][elements]
        wrong = elements[self._differs(places, made.onward[:, elements])]
        if len(wrong) and len(wrong := self._needed(making, wrong)):
            element = int(wrong[0])
            text = element_text(made.tensor, element)
            place = self.stored[made.tensor][element]
            self._refuse_bytes(making.number, making.instruction, text, made.onward[:, element], place)

    def _needed(self, making: _Making, elements: Ints) -> Ints:
        """Those of the elements that a chunk has failed to make which somebody reads."""
        later = self.order[self.order.index(making.number) + 1 :]
        return needed(self.compiled, later, making.made.tensor, elements)

    def _differs(self, places: NDArray[np.int64], values: NDArray[np.generic]) -> NDArray[np.bool_]:
        """Which elements, of whose bytes the places are given, have other values in DRAM."""
        columns = np.ascontiguousarray(values)
        wanted = columns.view(np.uint8).reshape(*columns.shape, -1)[:, :, : places.shape[1]]
        differs: NDArray[np.bool_] = (self.machine.dram[:, places] != wanted).any(axis=(0, 2))
        return differs

    def _check_outputs(self) -> None:
        """Every element of every output of the program must be where the host takes it from."""
        segments = {segment.tensor: segment for segment in self.compiled.program.outputs}
        for tensor in self.compiled.schedule.outputs:
            layout = self.compiled.layout_of(tensor)
            onward = self.expectation.made[tensor].onward.reshape(-1, *layout.shape)
            values = np.stack([layout.unpack(each).reshape(-1) for each in onward])
            places = output_bytes(segments[layout.tensor.name])
            wrong = np.flatnonzero(self._differs(places, values))
            if len(wrong):
                element = int(wrong[0])
                writer = int(self.machine.writers["dram"][places[element][0]])
                chunk = self.compiled.origins[writer].chunk if writer >= 0 else -1
                self._refuse_bytes(
                    chunk, writer, element_text(layout.tensor, element), values[:, element], places[element]
                )

    def _refuse_cells(self, making: _Making, element: int, content: _Content, matched: NDArray[np.bool_]) -> None:
        made = making.made
        text = element_text(made.tensor, element)
        others = np.flatnonzero(~matched)
        if not len(others):
            cell = f"one of the lanes of {content.memory} that it writes"
            self.report.refuse(making.number, making.instruction, text, made.values[:, element], cell, None)
        lane = int(others[0])
        place = int(content.elements[lane // content.lanes])
        cell = f"{content.memory}[{place}] lane {lane % content.lanes}"
        writer = int(self.machine.writers[content.memory][place])
        self.report.refuse(making.number, writer, text, made.values[:, element], cell, content.columns[:, lane])

    def _refuse_bytes(
        self, chunk: int, instruction: int, text: str, wanted: NDArray[np.generic], places: NDArray[np.int64]
    ) -> None:
        writer = int(self.machine.writers["dram"][places[0]])
        padded = np.zeros((self.sampler.samples, wanted.dtype.itemsize), np.uint8)
        padded[:, : len(places)] = self.machine.dram[:, places][:, : padded.shape[1]]
        there = padded.view(wanted.dtype).reshape(-1).astype(np.int64)
        cell = f"byte {int(places[0]):#x} of dram"
        self.report.refuse(chunk, writer if writer >= 0 else instruction, text, wanted, cell, there)
