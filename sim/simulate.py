"""Simulation of a program: input arrays to output arrays, with the cycles of the launch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.array_args import InputError, array_of
from lathe.configs.errors import shown
from lathe.isa import Program, Segment
from lathe.isa.table import MOST_TOKENS
from lathe.sim.bus_fault_injection import FaultyMemory
from lathe.sim.dram import FlatMemory
from lathe.sim.result import Result
from lathe.sim.run_launch import launch


def simulate_program(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    timing_only: bool = False,
    trace: bool = True,
    tokens: Sequence[int] | None = None,
) -> Result:
    """Run a program on its machine.

    `inputs` holds, by name, an array of the shape and dtype of each of the program's inputs, or a list of integers in
    the range of the dtype. With `timing_only` no data are moved, `inputs` are ignored, and the result has no outputs;
    cycles, counters and trace are the same. `trace` records the timing of each instruction. `tokens` are the initial
    counts of the four token queues, by default the program's.

    Raises :class:`InputError` for inputs that do not match, and :class:`~lathe.isa.MachineFault` for what the machine
    does not execute.
    """
    before = token_counts(program.tokens_in if tokens is None else tokens)
    memory = None if timing_only else memory_of(program, {} if inputs is None else inputs)
    finished = launch(
        program.config,
        program.columns,
        program.instructions,
        program.insn_addr,
        before,
        memory,
        trace=trace,
        faults=FaultyMemory(end=memory_end(program)),
    )
    return Result(
        program=program,
        outputs={} if memory is None else {each.name: unpacked(memory, each) for each in program.outputs},
        cycles=finished.counters.cycles,
        tokens=finished.tokens,
        counters=finished.counters,
        trace=finished.trace,
    )


def memory_of(program: Program, inputs: Mapping[str, ArrayLike]) -> FlatMemory:
    """The DRAM before the launch: instructions, constants and the packed inputs. Raises :class:`InputError`."""
    segments = {segment.tensor: segment for segment in program.inputs}
    for name in inputs:
        if name not in segments:
            known = ", ".join(segments) or "none"
            raise InputError(f"The inputs of the program must be {known}, not {name!r}. Remove it or correct its name.")
    for name, segment in segments.items():
        if name not in inputs:
            raise InputError(f"The inputs of the program must have {described(segment)}, which is missing. Add it.")
    memory = FlatMemory(memory_end(program))
    place(memory, program.insn_addr, program.encoded)
    for segment in program.segments:
        if segment.name in program.images:
            place(memory, segment.address, program.images[segment.name])
        elif segment.role == "input":
            place(memory, segment.address, packed(segment, inputs[segment.tensor]))
    return memory


def memory_end(program: Program) -> int:
    """The end of a program's DRAM: that of the beat in which its last segment ends."""
    beat = program.config.bus_bytes
    return -(-program.memory_end // beat) * beat


def packed(segment: Segment, value: ArrayLike) -> NDArray[Any]:
    """The physical array of an input. Raises :class:`InputError`."""
    shape, dtype = form(segment)
    contract = f"Input {segment.tensor!r} of the program must have shape {shape} and dtype {dtype}"
    try:
        array = array_of(value, dtype)
    except ValueError as error:
        raise InputError(f"{contract}, not be {error}. Convert the array first.") from None
    if array.shape != shape or array.dtype != dtype:
        raise InputError(f"{contract}, not {array.shape} and {array.dtype}. Convert the array first.")
    return array if segment.layout is None else segment.layout.pack(array)


def unpacked(memory: FlatMemory, segment: Segment) -> NDArray[Any]:
    """A new array from an output segment."""
    layout = segment.layout
    if layout is None:
        return memory.content[segment.address : segment.end].copy()
    content = memory.content[segment.address : segment.address + layout.nbytes]
    return layout.unpack(content.view(layout.physical_dtype).reshape(layout.physical_shape))


def form(segment: Segment) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of the array of a segment; its bytes if it has no layout."""
    if segment.layout is None:
        return (segment.nbytes,), np.dtype(np.uint8)
    return segment.layout.shape, np.dtype(segment.layout.dtype)


def described(segment: Segment) -> str:
    """An input, for messages."""
    shape, dtype = form(segment)
    return f"{segment.tensor!r} of shape {shape} and dtype {dtype}"


def place(memory: FlatMemory, address: int, array: NDArray[Any]) -> None:
    """Write the bytes of an array to an address."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    memory.content[address : address + len(content)] = content


def token_counts(tokens: Sequence[int]) -> tuple[int, int, int, int]:
    """The four token counts of a launch. Raises :class:`InputError`."""
    try:
        given = array_of(tokens, None)
    except ValueError:
        given = np.zeros(0)
    counts = given.reshape(-1).tolist() if given.dtype.kind in "iu" else []
    if len(counts) != 4 or min(counts) < 0 or max(counts) > MOST_TOKENS:
        raise InputError(
            f"tokens of a launch must be four counts from 0 to {MOST_TOKENS}, not {shown(tokens)}. "
            "Their order is load->compute, compute->load, compute->store, store->compute."
        )
    return counts[0], counts[1], counts[2], counts[3]
