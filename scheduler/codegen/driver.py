"""From a complete schedule to a program: allocation, emission, tokens, and the map of DRAM."""

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
from lathe.scheduler.codegen.reuse_dram import with_places_shared
from lathe.scheduler.errors import EmitError
from lathe.scheduler.layout.layout_assignment import assign_layouts, conflict_of_lanes
from lathe.scheduler.layout.physical_layout import PhysicalLayout, physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.split_epilogue import with_last_parts
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream.elide_accumulator_init import without_resets
from lathe.scheduler.stream.hide_compute_loads import fetched_early
from lathe.scheduler.stream.manual_sync import Step, steps_of
from lathe.scheduler.stream.memory_effects import Footprints
from lathe.scheduler.stream.preload_uops import preload_microops
from lathe.scheduler.stream.schedule_loads import loads_in_order
from lathe.scheduler.stream.schedule_prologue import schedule_prologue
from lathe.scheduler.stream.tokens import TokenPass


def compile_schedule(
    schedule: ScheduleView,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    views: Mapping[Tensor, Tensor],
    products: int | None = None,
) -> Compiled:
    """Compile a complete schedule: allocation, emission, tokens, and the map of DRAM.

    ``views`` maps placeholders that stand for another one, reshaped, to that one. ``products``: those of the program.
    """
    symbolic = build_nest(schedule, largest_blocks=True)
    plan = assign_layouts(schedule, config)
    physical: dict[StageView, PhysicalLayout] = {
        stage: physical_of(stage, plan.known, config) for stage in schedule.stages
    }
    aliases = find_aliases(schedule, config)
    buffers = buffers_of(schedule, config, symbolic, physical, aliases)
    dram = DramLayout(schedule, config, plan, constants, views)
    emitter = Emitter(schedule, config, dram, physical, buffers, aliases)
    try:
        emitter.run(with_last_parts(partition(symbolic), is_stored, PartSizes(physical, config)))
    except EmitError as error:
        reasons = [conflict_of_lanes(schedule, config), lanes_as_wanted(schedule)]
        if not any(reasons):
            raise
        raise EmitError(" ".join([str(error), *filter(None, reasons)]), kind=error.kind) from None
    emitter.entries, dram.segments = with_places_shared(
        emitter.entries, dram.segments, footprints_of(emitter), dram.grain
    )
    return _assemble(emitter, dram.segments, constants, products)


def lanes_as_wanted(schedule: ScheduleView) -> str:
    """A sentence on stages whose lanes a command has decided."""
    wanted = [stage.name for stage in schedule.stages if stage.state.is_vectorized]
    if not wanted:
        return ""
    return f"Lanes of {', '.join(wanted)} are those that vectorize says; without it, build chooses what fits."


def _assemble(
    emitter: Emitter, segments: list[Segment], constants: Mapping[str, NDArray[Any]], products: int | None
) -> Compiled:
    config = emitter.config
    image = emitter.pool.image()
    footprints = footprints_of(emitter)
    steps = steps_in_order(emitter, footprints)
    tokens = TokenPass[Origin](footprints.anew())
    numbers: list[int] = []
    for step in steps:
        if step.barrier:
            tokens.barrier(step.origin)
        numbers.append(tokens.add(step.instruction, step.origin, [numbers[n] for n in step.waits]))
    labels = list(emitter.labels) or ["program"]
    tokens.add(Finish(), Origin(len(labels) - 1))
    tokens.check_room()
    address = max((segment.end for segment in segments), default=PAGE_BYTES)
    uop_address = -(-address // PAGE_BYTES) * PAGE_BYTES
    uops = Segment(UOPS, UOPS, uop_address, image.nbytes)
    stream_address = -(-uops.end // PAGE_BYTES) * PAGE_BYTES
    instructions = tuple(_moved(each, uop_address // config.uop_element_bytes) for each in tokens.output)
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
        [_of_sums(chunk, emitter) for chunk in emitter.made],
        emitter.schedule,
        emitter.dram.views,
        constants,
    )


def _of_sums(chunk: ChunkProvenance, emitter: Emitter) -> ChunkProvenance:
    """What a chunk makes, where products that are added in place make the sum at once."""
    made = emitter.sums.get(emitter.maker[chunk.tensor])
    return chunk if made is None else replace(chunk, tensor=made.tensor, role="map")


def steps_in_order(emitter: Emitter, footprints: Footprints) -> list[Step]:
    """What has been emitted, micro-ops first. Raises ScheduleError where tokens by hand leave no order."""
    needless = emitter.zeros.needless() if emitter.zeros is not None else set()
    left = without_resets(emitter.entries, needless)
    entries, origins = [entry for entry, _ in left], [origin for _, origin in left]
    stream = list(zip(*preload_microops(entries, origins), strict=True))
    stream = interleave_epilogue(stream, emitter.part_of, footprints.anew)
    stream = schedule_prologue(stream, footprints.anew())
    stream = loads_in_order(stream, footprints.anew())
    return steps_of(fetched_early(stream, footprints.anew()), footprints.anew)


def footprints_of(emitter: Emitter) -> Footprints:
    """The cells that instructions touch, in the order of a stream, with what the micro-op pool holds by now."""
    config = emitter.config
    written = [segment for segment in emitter.dram.segments if segment.role in ("output", "temporary")]
    tracked = (
        min((segment.address for segment in written), default=0),
        max((segment.end for segment in written), default=0),
    )
    grain = min(config.out_element_bytes, config.inp_element_bytes, config.wgt_element_bytes)
    return Footprints(config, emitter.pool.image().view("<u4"), grain, tracked)


def _moved(instruction: Instruction, uop_base: int) -> Instruction:
    """A LOAD of micro-ops with the address of their segment; loads without data keep a harmless one."""
    if loads_micro_ops(instruction):
        return replace(instruction, dram_base=instruction.dram_base + uop_base)
    return instruction
