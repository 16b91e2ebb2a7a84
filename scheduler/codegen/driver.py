"""The driver of code generation: from a lowered schedule to a program."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.memory import PAGE_BYTES
from lathe.frontend import Tensor
from lathe.isa import Finish, Instruction, Program, Segment
from lathe.isa.instructions import loads_micro_ops
from lathe.isa.program import UOPS
from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.dram_layout import DramLayout, packed_bytes
from lathe.scheduler.codegen.emit import Emitter
from lathe.scheduler.codegen.pipeline_epilogue import PartSizes, interleave_epilogue, is_stored
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.codegen.reuse_dram import reuse_dram
from lathe.scheduler.errors import EmitError
from lathe.scheduler.layout.layout_assignment import assign_layouts, describe_layout_conflict
from lathe.scheduler.layout.physical_layout import PhysicalLayout, physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.split_epilogue import split_epilogue
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream.elide_accumulator_init import remove_dead_resets
from lathe.scheduler.stream.hide_compute_loads import hide_compute_loads
from lathe.scheduler.stream.manual_sync import SyncedInstruction, synchronised
from lathe.scheduler.stream.memory_effects import EffectsTracker
from lathe.scheduler.stream.preload_uops import hoist_uop_loads
from lathe.scheduler.stream.schedule_loads import schedule_loads
from lathe.scheduler.stream.schedule_prologue import schedule_prologue
from lathe.scheduler.stream.tokens import TokenPass


def compile_schedule(
    schedule: ScheduleView,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    views: Mapping[Tensor, Tensor],
    products: int | None = None,
) -> Compiled:
    """Compile a lowered schedule: buffer allocation, DRAM layout, emission, stream passes and dependence tokens.

    ``views`` maps placeholders that are reshaped views of another one to that one. ``products``: MACs of the program.
    """
    symbolic = build_nest(schedule, largest_blocks=True)
    plan = assign_layouts(schedule, config)
    physical: dict[StageView, PhysicalLayout] = {
        stage: physical_of(stage, plan.layouts, config) for stage in schedule.stages
    }
    aliases = find_aliases(schedule, config)
    buffers = buffers_of(schedule, config, symbolic, physical, aliases)
    dram = DramLayout(schedule, config, plan, constants, views)
    emitter = Emitter(schedule, config, dram, physical, buffers, aliases)
    try:
        emitter.run(split_epilogue(partition(symbolic), is_stored, PartSizes(physical, config)))
    except EmitError as error:
        reasons = [describe_layout_conflict(schedule, config), explain_user_layouts(schedule)]
        if not any(reasons):
            raise
        raise EmitError(" ".join([str(error), *filter(None, reasons)]), kind=error.kind) from None
    emitter.entries, dram.segments = reuse_dram(emitter.entries, dram.segments, footprints_of(emitter), dram.grain)
    return _assemble(emitter, dram.segments, constants, products)


def explain_user_layouts(schedule: ScheduleView) -> str:
    """A sentence, for errors, on the stages whose vector layout the user has set with ``vectorize``; "" for none."""
    names = [stage.name for stage in schedule.stages if stage.state.is_vectorized]
    if not names:
        return ""
    return f"The vector layout of {', '.join(names)} is set by vectorize; without it, the build chooses one that fits."


def _assemble(
    emitter: Emitter, segments: list[Segment], constants: Mapping[str, NDArray[Any]], products: int | None
) -> Compiled:
    config = emitter.config
    image = emitter.pool.image()
    footprints = footprints_of(emitter)
    steps = run_stream_passes(emitter, footprints)
    tokens = TokenPass[Origin](footprints.restarted())
    numbers: list[int] = []
    for step in steps:
        if step.barrier:
            tokens.barrier(step.origin)
        numbers.append(tokens.add(step.instruction, step.origin, [numbers[n] for n in step.waits]))
    labels = list(emitter.labels) or ["program"]
    tokens.add(Finish(), Origin(len(labels) - 1))
    tokens.check_token_counters()
    address = max((segment.end for segment in segments), default=PAGE_BYTES)
    uop_address = -(-address // PAGE_BYTES) * PAGE_BYTES
    uops = Segment(UOPS, UOPS, uop_address, image.nbytes)
    stream_address = -(-uops.end // PAGE_BYTES) * PAGE_BYTES
    instructions = tuple(_relocated(each, uop_address // config.uop_element_bytes) for each in tokens.output)
    stream = Segment("instructions", "instructions", stream_address, 16 * len(instructions))
    images = {UOPS: image}
    for segment in segments:
        if segment.role == "constant":
            images[segment.name] = packed_bytes(segment, constants[segment.tensor])
    label_of = np.asarray([origin.label for origin in tokens.labels], np.int32)
    program = Program(
        config, instructions, (*segments, uops, stream), images, tuple(labels), label_of, products=products
    )
    sends = [(number, each) for number, step in zip(numbers, steps, strict=True) for each in step.sends]
    receives = [(number, each) for number, step in zip(numbers, steps, strict=True) for each in step.receives]
    return Compiled(
        program,
        tokens.labels,
        tokens.barriers,
        sends,
        receives,
        [_completed_sum(chunk, emitter) for chunk in emitter.provenance],
        emitter.schedule,
        emitter.dram.views,
        constants,
    )


def _completed_sum(chunk: ChunkProvenance, emitter: Emitter) -> ChunkProvenance:
    """The provenance of a chunk; a GEMM that accumulates in place completes the sum that it is added to."""
    completed = emitter.sums.get(emitter.producers[chunk.tensor])
    return chunk if completed is None else replace(chunk, tensor=completed.tensor, role="map")


def run_stream_passes(emitter: Emitter, footprints: EffectsTracker) -> list[SyncedInstruction]:
    """The stream after all stream passes, micro-op loads first. Raises ScheduleError where manual tokens deadlock."""
    needless = emitter.zeros.dead_resets() if emitter.zeros is not None else set()
    emitted = remove_dead_resets(emitter.entries, needless)
    entries, origins = [entry for entry, _ in emitted], [origin for _, origin in emitted]
    stream = list(zip(*hoist_uop_loads(entries, origins), strict=True))
    stream = interleave_epilogue(stream, emitter.part_of, footprints.restarted)
    stream = schedule_prologue(stream, footprints.restarted())
    stream = schedule_loads(stream, footprints.restarted())
    return synchronised(hide_compute_loads(stream, footprints.restarted()), footprints.restarted)


def footprints_of(emitter: Emitter) -> EffectsTracker:
    """Finds the cells that instructions access, in stream order, with the micro-ops pooled so far."""
    config = emitter.config
    written = [segment for segment in emitter.dram.segments if segment.role in ("output", "temporary")]
    tracked = (
        min((segment.address for segment in written), default=0),
        max((segment.end for segment in written), default=0),
    )
    grain = min(config.out_element_bytes, config.inp_element_bytes, config.wgt_element_bytes)
    return EffectsTracker(config, emitter.pool.image().view("<u4"), grain, tracked)


def _relocated(instruction: Instruction, uop_base: int) -> Instruction:
    """A LOAD of micro-ops with the address of their segment; other instructions stay as they are."""
    if loads_micro_ops(instruction):
        return replace(instruction, dram_base=instruction.dram_base + uop_base)
    return instruction
