"""Validation of an instruction stream against the algorithm, chunk by chunk.

Instructions run, in the order of the stream, on samples. When a chunk is through, the elements that it makes must be
among what it has written: found by their columns of values, so that no address is needed to look for them. In
accumulators new values take their place then, and whoever reads them from a wrong cell gets something else. At the end
every output must stand in DRAM where the host takes it from.

The idea is translation validation (Pnueli, Siegel and Singerman, 1998), with random testing of expressions on fresh
operands in place of proofs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.frontend.dtypes import DTYPES
from lathe.isa import Instruction, Segment, instruction_text
from lathe.isa.layout import Layout
from lathe.isa.layout_steps import Reordering, Reversing
from lathe.scheduler.compiled import Compiled
from lathe.scheduler.made_chunks import MadeChunk
from lathe.sim.blas import one_blas_thread
from lathe.validation.errors import ValidationError
from lathe.validation.expected import Expectation, Made
from lathe.validation.machine import SampledMachine, Written
from lathe.validation.sampling import Ints, Sampler

SAMPLES = 16
SCRATCHPADS = ("inp", "wgt", "acc")


def validate_stream(compiled: Compiled, *, samples: int = SAMPLES, seed: int = 0) -> None:
    """Raises ValidationError at the first chunk that does not make its elements, or output that is not there."""
    sampler = Sampler(samples, seed)
    with one_blas_thread():
        expectation = Expectation(compiled, sampler)
        _Validation(compiled, expectation, SampledMachine(compiled.program, samples, seed), sampler).run()


@dataclass(frozen=True)
class _Content:
    """Lanes of scratchpad elements: ``columns`` (samples, lanes), where they are, and a number for each column."""

    memory: str
    elements: Ints
    lanes: int
    columns: NDArray[np.int64]
    known: Ints


class _Validation:
    def __init__(
        self, compiled: Compiled, expectation: Expectation, machine: SampledMachine, sampler: Sampler
    ) -> None:
        self.compiled = compiled
        self.program = compiled.program
        self.expectation = expectation
        self.machine = machine
        self.sampler = sampler
        self.scope = {
            tensor: stage.state.scope for stage in compiled.schedule.stages for tensor in stage.state.tensors
        }
        self.renewed = {
            tensor for stage in compiled.schedule.stages for tensor in stage.state.tensors
            if expectation.renews(stage.state)
        }  # fmt: skip
        self.stored = self._stored_places()

    def run(self) -> None:
        self._place_images()
        last: dict[int, int] = {}
        for number, origin in enumerate(self.compiled.origins):
            if origin.chunk >= 0:
                last[origin.chunk] = number
        finals = self._final_elements([chunk for chunk, _ in sorted(last.items(), key=lambda item: item[1])])
        written: dict[int, list[Written]] = {}
        for number, (instruction, origin) in enumerate(
            zip(self.program.instructions, self.compiled.origins, strict=True)
        ):
            found = self.machine.run(number, instruction)
            if origin.chunk < 0:
                continue
            written.setdefault(origin.chunk, []).extend(found)
            if last[origin.chunk] == number:
                self._check(origin.chunk, number, finals.get(origin.chunk), written.pop(origin.chunk))
        self._check_outputs()

    # What is where at first.

    def _place_images(self) -> None:
        program, dram = self.program, self.machine.dram
        self._put(program.insn_addr, np.broadcast_to(program.encoded.reshape(-1), (self.sampler.samples, program.encoded.size)))
        for segment in program.segments:
            if segment.role == "uop":
                image = program.images[segment.name]
                dram[:, segment.address : segment.address + len(image)] = image
            elif segment.role in ("input", "constant"):
                assert segment.layout is not None, f"segment {segment.name} has no layout"
                arrays = self.expectation.inputs[segment.tensor]
                content = np.stack([segment.layout.pack(array).reshape(-1).view(np.uint8) for array in arrays])
                self._put(segment.address, content)

    def _put(self, address: int, content: NDArray[np.uint8]) -> None:
        self.machine.dram[:, address : address + content.shape[1]] = content

    def _stored_places(self) -> dict[Tensor, NDArray[np.int64]]:
        """For tensors that have a segment of DRAM to themselves: the bytes of each element, (elements, bytes)."""
        segments = {segment.tensor: segment for segment in self.program.segments if segment.role in ("output", "temporary")}
        found: dict[Tensor, NDArray[np.int64]] = {}
        for stage in self.compiled.schedule.stages:
            if stage.state.scope != "dram" or stage.state.storage is not None:
                continue
            for tensor in stage.state.tensors:
                layouts = self.compiled.schedule.layouts
                named = layouts[tensor].tensor if tensor in layouts else tensor
                segment = segments.get(named.name)
                if segment is not None:
                    found[tensor] = bytes_of_elements(segment, tensor.shape)
        return found

    # Which elements chunks make.

    def _final_elements(self, order: Sequence[int]) -> dict[int, Ints]:
        """For chunks that add parts of reductions: the elements that are whole afterwards."""
        more: dict[Tensor, NDArray[np.bool_]] = {}
        finals: dict[int, Ints] = {}
        for number in reversed(order):
            chunk = self.compiled.chunks[number]
            if chunk.role in ("map", "reduce") and chunk.tensor not in more:
                continue
            elements = elements_of(chunk)
            open_ = more.setdefault(chunk.tensor, np.zeros(int(np.prod(chunk.tensor.shape)), np.bool_))
            if chunk.role == "update":
                finals[number] = elements[~open_[elements]]
            open_[elements] = chunk.role == "update"
        return finals

    # The check of one chunk.

    def _check(self, number: int, instruction: int, finals: Ints | None, written: list[Written]) -> None:
        chunk = self.compiled.chunks[number]
        if chunk.role == "init":
            return
        elements = elements_of(chunk) if finals is None else finals
        made = self.expectation.made[chunk.tensor]
        elements = elements[~made.free[elements]]
        if not len(elements):
            return
        scope = self.scope[chunk.tensor]
        if scope in SCRATCHPADS:
            self._check_cells(chunk, number, instruction, made, elements, scope, written)
        elif chunk.tensor in self.stored:
            self._check_bytes(chunk, number, instruction, made, elements)

    def _check_cells(
        self, chunk: MadeChunk, number: int, instruction: int, made: Made, elements: Ints, scope: str,
        written: list[Written],
    ) -> None:  # fmt: skip
        content = self._content(scope, [each.places for each in written if each.memory == scope])
        wanted, first = np.unique(made.known[elements], return_index=True)
        representatives = elements[first]
        forms = _forms(content.columns, chunk.tensor.dtype) if scope == "acc" else [content.columns]
        found = np.zeros(len(wanted), np.bool_)
        matches: list[tuple[NDArray[np.bool_], Ints]] = []
        for form in forms:
            known = self.sampler.hashes(form)
            place = np.minimum(np.searchsorted(wanted, known), len(wanted) - 1)
            same = wanted[place] == known
            found[place[same]] = True
            matches.append((same, place))
        if not found.all():
            missing = int(representatives[~found].min())
            matched = np.any([same for same, _ in matches], axis=0)
            self._refuse(chunk, number, instruction, made, missing, content, matched)
        if chunk.tensor in self.renewed:
            self._renew(chunk, made, representatives, content, matches)

    def _renew(
        self, chunk: MadeChunk, made: Made, elements: Ints, content: _Content,
        matches: list[tuple[NDArray[np.bool_], Ints]],
    ) -> None:  # fmt: skip
        """Values that have been checked are replaced by new ones, in the form in which they are there."""
        columns = content.columns.copy()
        taken = np.zeros(columns.shape[1], np.bool_)
        bits = DTYPES[chunk.tensor.dtype].bits
        for form, (same, place) in enumerate(matches):
            lanes = np.flatnonzero(same & ~taken)
            taken |= same
            new = made.onward[:, elements[place[lanes]]].astype(np.int64)
            columns[:, lanes] = in_form(form, new, columns[:, lanes], bits)
        cells = self.machine.cells(content.memory)
        cells[:, content.elements] = columns.reshape(self.sampler.samples, -1, content.lanes).astype(cells.dtype)

    def _content(self, memory: str, places: Sequence[slice | Ints]) -> _Content:
        """What has been written in a scratchpad, lane by lane."""
        cells = self.machine.cells(memory)
        numbers = [np.arange(each.start, each.stop) if isinstance(each, slice) else each for each in places]
        elements = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
        columns = cells[:, elements].astype(np.int64).reshape(self.sampler.samples, -1)
        return _Content(memory, elements, cells.shape[2], columns, np.zeros(0, np.int64))

    def _check_bytes(self, chunk: MadeChunk, number: int, instruction: int, made: Made, elements: Ints) -> None:
        wrong = elements[self._differs(made, elements)]
        if len(wrong):
            self._refuse_stored(made, int(wrong[0]), number, instruction)

    def _differs(self, made: Made, elements: Ints) -> NDArray[np.bool_]:
        """Which elements of a stored tensor are not what they must be."""
        places = self.stored[made.tensor][elements]
        values = np.ascontiguousarray(made.onward[:, elements])
        size = values.dtype.itemsize
        wanted = values.view(np.uint8).reshape(len(values), len(elements), size)
        there = self.machine.dram[:, places]
        differs: NDArray[np.bool_] = (there != wanted[:, :, : places.shape[1]]).any(axis=(0, 2))
        return differs

    def _check_outputs(self) -> None:
        """Every element of every output of the program must be where the host takes it from."""
        for tensor in self.compiled.schedule.outputs:
            made = self.expectation.made[tensor]
            elements = np.flatnonzero(~made.free)
            if tensor not in self.stored:
                continue
            wrong = elements[self._differs(made, elements)]
            if len(wrong):
                element = int(wrong[0])
                number = next(
                    (n for n in reversed(range(len(self.compiled.chunks)))
                     if self.compiled.chunks[n].tensor is tensor and element in elements_of(self.compiled.chunks[n])),
                    -1,
                )  # fmt: skip
                self._refuse_stored(made, element, number, -1)

    # What is said.

    def _refuse(
        self, chunk: MadeChunk, number: int, instruction: int, made: Made, element: int, content: _Content,
        matched: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        others = np.flatnonzero(~matched)
        cell, there = "none of those that it writes", ""
        if len(others):
            rank = 0
            lane = int(others[rank])
            place = int(content.elements[lane // content.lanes])
            cell = f"{content.memory}[{place}] lane {lane % content.lanes}"
            instruction = int(self.machine.writers[content.memory][place])
            there = self._told(content.columns[:, lane])
        self._raise(number, instruction, made, element, cell, there)

    def _refuse_stored(self, made: Made, element: int, number: int, instruction: int) -> None:
        places = self.stored[made.tensor][element]
        byte = int(places[0])
        writer = int(self.machine.writers["dram"][byte])
        content = self.machine.dram[:, places].astype(np.uint8)
        padded = np.zeros((len(content), made.onward.dtype.itemsize), np.uint8)
        padded[:, : content.shape[1]] = content
        values = padded.view(made.onward.dtype).reshape(-1).astype(np.int64)
        self._raise(number, writer if writer >= 0 else instruction, made, element, f"byte {byte:#x} of dram", self._told(values))

    def _raise(self, number: int, instruction: int, made: Made, element: int, cell: str, there: str) -> None:
        wanted = made.onward[:, element] if cell.startswith("byte") else made.values[:, element]
        text = "no instruction writes there"
        if instruction >= 0:
            text = f"instruction {instruction} ({instruction_text(self.program.instructions[instruction])})"
        chunk = self.compiled.chunks[number].text if number >= 0 else "none"
        raise ValidationError(
            f"{text} of chunk {chunk} must leave {_element(made.tensor, element)} = {_numbers(wanted)} in {cell}, not "
            f"{there or 'anything else'}. This is a fault of the emission rule, or of what comes before it."
        )

    def _told(self, column: NDArray[np.int64]) -> str:
        """What a column of values is: an element of some tensor, a constant, or numbers that nothing accounts for."""
        if (column == column[0]).all():
            return f"the constant {column[0]}"
        known = self.sampler.hashes(column[:, None])[0]
        for made in self.expectation.made.values():
            for columns in (made.onward, made.values):
                here = np.flatnonzero(self.sampler.hashes(columns) == known)
                if len(here):
                    return f"{_element(made.tensor, int(here[0]))} = {_numbers(column)}"
        return f"{_numbers(column)}, which is no element of any tensor"


def elements_of(chunk: MadeChunk) -> Ints:
    """The row-major numbers of the elements of a chunk, each once, ascending."""
    shape = chunk.tensor.shape
    flat: Ints = np.zeros((), np.int64)
    inside = np.ones((), np.bool_)
    rank = len(chunk.loops)
    for extent, index in zip(shape, chunk.index, strict=True):
        value: Ints = np.asarray(index.constant)
        for n, (loop, coefficient) in enumerate(zip(chunk.loops, index.coefficients, strict=True)):
            if coefficient and loop.extent > 1:
                value = value + coefficient * np.arange(loop.extent).reshape([-1 if d == n else 1 for d in range(rank)])
        flat = flat * extent + value
        inside = inside & (value >= 0) & (value < extent)
    both = np.broadcast_arrays(flat, inside)
    found: Ints = np.unique(both[0][both[1]])
    return found


def bytes_of_elements(segment: Segment, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The bytes of DRAM of each element, (elements, bytes of each), of a tensor in the axes in which it is laid out."""
    assert segment.layout is not None, f"segment {segment.name} has no layout"
    layout = segment.layout
    own = Layout(layout.view, "int64", layout.axes)
    cells = np.arange(np.prod(own.physical_shape), dtype=np.int64).reshape(own.physical_shape)
    places = own.unpack(cells).reshape(-1)
    assert places.size == np.prod(shape), f"{segment.name} has {places.size} elements, not {shape}"
    size = np.dtype(layout.dtype).itemsize
    if layout.storage == "planes":
        return segment.address + places[:, None] + cells.size * np.arange(size)
    width = np.dtype(layout.physical_dtype).itemsize
    return segment.address + places[:, None] * width + np.arange(width)


def _forms(columns: NDArray[np.int64], dtype: str) -> list[NDArray[np.int64]]:
    """How accumulators may hold values of a type: as they are, sign-extended, or in the low bits."""
    kind = DTYPES[dtype]
    if kind.bits >= 32:
        return [columns if dtype != "uint32" else columns & 0xFFFFFFFF]
    mask = (1 << kind.bits) - 1
    low = columns & mask
    signed = low - ((low >> (kind.bits - 1)) << kind.bits)
    value = signed if kind.minimum < 0 else low
    nowhere = np.int64(1) << 40
    return [columns, np.where(columns == signed, value, nowhere), np.where(columns == low, value, nowhere), value]


def in_form(form: int, new: NDArray[np.int64], old: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """New values in the form in which the old ones are there (``_forms``)."""
    mask = (1 << bits) - 1
    low = new & mask
    if form == 0:
        return new if bits < 32 else (new + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
    if form == 1:
        return low - ((low >> (bits - 1)) << bits)
    return low if form == 2 else (old & ~mask) | low


def _element(tensor: Tensor, element: int) -> str:
    index = ", ".join(str(int(n)) for n in np.unravel_index(element, tensor.shape))
    return f"{tensor.name}[{index}]"


def _numbers(values: NDArray[Any]) -> str:
    return f"({', '.join(str(int(value)) for value in values[:4])}, ...)"
