"""Compile and simulate schedules: outputs compared with NumPy, and every byte of DRAM."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
from meanings import check_values
from random_programs import random_inputs

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import placeholders
from lathe.isa import Instruction, Load, Program, verify
from lathe.isa.table import MEMORIES
from lathe.scheduler import Schedule, build
from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.allocation import Buffer
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.sim import replay, simulate_program

VTA, TINY = load_config("vta"), load_config("tiny")
UNTOUCHED = 0xA5
PAGE = 4096


def run(schedule: Schedule, config: HardwareConfig, inputs: Mapping[str, Any]) -> Program:
    """Compile and simulate a schedule; fail unless its outputs are those of NumPy. Returns the program."""
    program = build(schedule, [*placeholders(schedule.program), *schedule.program], config)
    assert verify(program) == []
    check_values(simulate_program(program, inputs).outputs, list(schedule.program), inputs)
    return program


def simulate_and_check(s: Schedule, config: HardwareConfig = TINY) -> Program:
    """Compile for a small machine with random inputs; fail unless the simulator gives NumPy's outputs."""
    return run(s, config, random_inputs(list(s.program), seed=2))


def memory_of(program: Program, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """All of DRAM before and after a launch, as bytes; bytes that the program does not own hold a pattern before."""
    size = -(-program.memory_end // PAGE) * PAGE + PAGE
    before = np.full(size, UNTOUCHED, np.uint8)
    for segment in program.segments:
        content = program.images.get(segment.name)
        if segment.role == "instructions":
            content = program.encoded.reshape(-1)
        elif segment.role == "input":
            assert segment.layout is not None
            content = segment.layout.pack(inputs[segment.tensor]).view(np.uint8).reshape(-1)
        if content is not None:
            before[segment.address : segment.address + len(content)] = content
    stream = {
        "insns": program.encoded,
        "insn_addr": np.uint64(program.insn_addr),
        "page_addrs": np.arange(0, size, PAGE, dtype=np.uint64),
        "pages": before.reshape(-1, PAGE),
        "tokens": np.array(program.tokens_in, np.int64),
    }
    result = replay(program.config, stream)
    assert result.page_addrs.tolist() == stream["page_addrs"].tolist()
    return before, result.pages.reshape(-1)


def live_bytes(program: Program, name: str) -> Any:
    """Which bytes of an output's segment hold values of the output."""
    layout = program.segment(name).layout
    assert layout is not None
    planes = layout.physical_shape[0] if layout.storage == "planes" else 1
    ones = np.full(layout.shape, -1 if np.issubdtype(np.dtype(layout.dtype), np.signedinteger) else 1, layout.dtype)
    live = layout.pack(ones).view(np.uint8).reshape(-1) != 0
    assert live.sum() == np.prod(layout.shape) * planes
    return live


def buffers(s: Schedule, config: HardwareConfig = VTA) -> dict[str, Buffer]:
    """The scratchpad buffers of a schedule, by the name of their first stage."""
    whole = run_pipeline(s, config)
    known = assign_layouts(whole, config).layouts
    physical = {stage: physical_of(stage, known, config) for stage in whole.stages}
    found = buffers_of(whole, config, build_nest(whole, largest_blocks=True), physical, find_aliases(whole, config))
    return {buffer.stage.name: buffer for buffer in found if not buffer.temporary}


def loads_of(program: Program, name: str) -> list[Load]:
    """The LOADs that read bytes of a segment, in stream order; LOADs of padding only read nothing."""
    segment = program.segment(name)
    found = []
    for instruction in program.instructions:
        if isinstance(instruction, Load) and instruction.y_size and instruction.x_size:
            size = MEMORIES[instruction.memory_type].element_bytes(program.config)
            first = instruction.dram_base * size
            rows = (instruction.y_size - 1) * instruction.x_stride + instruction.x_size
            if first < segment.end and segment.address < first + rows * size:
                found.append(instruction)
    return found


def loaded_early(program: Program) -> list[str]:
    """The segments of which bytes are loaded before they are stored, even if the loaded values are dead."""
    everything = set(range(len(program.instructions)))
    with mock.patch("lathe.isa.verifier.loads_used_undefined", return_value=everything):
        cells = [int(finding.cell.removeprefix("DRAM "), 16) for finding in verify(program)]
    return [each.name for each in program.segments if any(each.address <= cell < each.end for cell in cells)]


class Recorder:
    """A rule that records its chunks and delegates to another rule."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.chunks: list[Chunk] = []

    def __call__(self, chunk: Chunk) -> "list[Instruction]":
        self.chunks.append(chunk)
        return list(self.rule(chunk))
