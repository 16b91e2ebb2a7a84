"""RESCALE on RTL and simulator: read-after-write distances, range faults, and instructions that read its results."""

import random
from dataclasses import replace

import numpy as np
import pytest
from comparison import differences, drain, fault_of, reported_fault
from extended_machines import with_extensions
from rescale_streams import CELLS, at_once, followed, stream
from rescaling import rescale_flags
from streams import Stream

from lathe.configs import load_config
from lathe.configs.memory import LOOKUP_STAGES, PAGE_BYTES, RESCALE_STAGES
from lathe.isa import FaultCode, Finish, Load, MemoryType, Rescale, Store
from lathe.rtl.engines import pysim, verilator

SETS = (("rescale",), ("rescale", "rescale_add", "lookup"))
STAGES = RESCALE_STAGES + LOOKUP_STAGES


def machine(extensions=SETS[1], **other):
    """The small machine with the extensions."""
    return with_extensions(load_config("tiny"), extensions).with_(**other)


def agree(cfg, launched, run=pysim.run):
    """The fault that simulator and RTL must report in the same cycle; NONE if there is none and all results agree."""
    code, cycle = fault_of(cfg, launched)
    if code is FaultCode.NONE:
        assert differences(cfg, launched, run) == []
        return code
    (outcome,) = run(cfg, launched.launch(cfg, most_cycles=cycle + drain(cfg)))
    assert reported_fault(outcome) == (code, cycle)
    return code


# The shortest pipeline, which reads an accumulator in the cycle of its range check, and a longer one.
@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [3, 5])
@pytest.mark.parametrize("extensions", SETS)
def test_an_accumulator_may_be_read_after_its_write_and_no_sooner(extensions, pipeline):
    cfg = machine(extensions, **{"timing.gemm_pipeline": pipeline, "timing.alu_pipeline": 3})
    stages = STAGES if "lookup" in extensions else RESCALE_STAGES
    rng = random.Random(pipeline)
    for distance in (1, 2, stages - 1, stages, stages + 1, stages + 2):
        dst = [*range(10, 10 + distance)]
        columns = dst, [CELLS - 1] * distance, [rng.randrange(cfg.par_depth) for _ in dst]
        again = Rescale(0, distance, 2, 1, 0, 0, 0, 0, **rescale_flags(rng, cfg) | {"add": False})
        early = FaultCode.NONE if distance > stages else FaultCode.ACC_REUSE
        assert agree(cfg, stream(rng, cfg, columns, [again])) is early
    if "rescale_add" not in extensions:
        return
    for distance in (stages - 1, stages, stages + 1):  # from a write to a micro-op's first issue cycle, which reads src
        count = (distance + 1) // 2 + 1
        dst = [*range(10, 10 + count)]
        src = [CELLS - 1] * (count - 1) + [dst[count - 1 - (distance + 1) // 2]]
        add = Rescale(0, count, 1, 1, 0, 0, 0, 0, add=True)
        found = agree(cfg, stream(rng, cfg, (dst, src, [0] * count), [add]))
        assert found is (FaultCode.NONE if 2 * (count - 1) - 1 > stages else FaultCode.ACC_REUSE)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        (Rescale(0, 1, 1, 3, 0, 1, 0, 100), FaultCode.PAR_RANGE),
        (Rescale(0, 1, 1, 3, 0, 1, 127, 127, add=True), FaultCode.PAR_RANGE),
        (Rescale(0, 1, 3, 1, 128, 0, 100, 0), FaultCode.ACC_RANGE),  # has priority over PAR_RANGE
        (Rescale(0, 1, 3, 1, 128, 0, 0, 0, add=True), FaultCode.ACC_RANGE),
        (Rescale(0, 1, 1, 3, 0, 0, 0, 64), FaultCode.ACC_REUSE),  # one issue cycle before the index beyond par
        (Rescale(255, 257, 1, 1, 0, 0, 0, 0), FaultCode.UOP_RANGE),
        (Rescale(0, 1, 0, 1, 255, 255, 127, 127, add=True, table=1), FaultCode.NONE),  # no iterations
        (Load(MemoryType.PAR, 127, 0, 1, 2, 2), FaultCode.SRAM_RANGE),
        (Load(MemoryType.LUT, 512, 0, 1, 1, 1), FaultCode.SRAM_RANGE),
        (Store(memory_type=MemoryType.LUT, sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
            FaultCode.MEMORY_TYPE),
    ],
)  # fmt: skip
def test_faults_are_reported_in_their_cycle(instruction, code):
    cfg = machine()
    assert cfg.par_depth == 128
    columns = [3, 8], [40, 50], [7, 6]
    rng = random.Random(0)
    assert agree(cfg, stream(rng, cfg, columns, [Rescale(0, 2, 1, 1, 0, 0, 0, 0), instruction])) is code


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("extensions", "instruction", "code"),
    [
        ((), Rescale(0, 1, 1, 1, 0, 0, 0, 0), FaultCode.OPCODE),
        (("rescale",), Rescale(0, 1, 1, 1, 0, 0, 0, 0, add=True), FaultCode.OPCODE),
        ((), Load(MemoryType.PAR, 0, 0, 1, 1, 1), FaultCode.MEMORY_TYPE),
        (("rescale",), Load(MemoryType.LUT, 0, 0, 1, 1, 1), FaultCode.MEMORY_TYPE),
    ],
)
def test_instructions_of_missing_extensions_are_faults(extensions, instruction, code):
    cfg = machine(extensions)
    pages = np.zeros((1, PAGE_BYTES), np.uint8)
    launched = Stream([instruction, Finish()], np.zeros(1, np.uint64), pages)
    assert agree(cfg, launched) is code


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_next_instructions_read_the_results(seed):
    rng = random.Random(seed)
    cfg = machine(**{"timing.gemm_pipeline": rng.choice([3, 4, 6]), "memory.bus_bits": rng.choice([16, 64, 256])})
    assert agree(cfg, followed(rng, cfg)) is FaultCode.NONE
    assert agree(cfg, at_once(rng, cfg)) is FaultCode.NONE


@pytest.mark.slow
def test_two_samples_have_separate_results_with_the_same_parameters():
    rng = random.Random(5)
    cfg = machine(batch=2, block_in=2, block_out=8)
    assert agree(cfg, followed(rng, cfg)) is FaultCode.NONE


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "batch4", "wide"])
def test_the_next_instructions_read_the_results_on_verilated_machines(name):
    for seed in range(100, 140):
        rng = random.Random(seed)
        cfg = with_extensions(load_config(name), SETS[1])
        launched = followed(rng, cfg)
        assert agree(cfg, launched, verilator.run) is FaultCode.NONE, seed
        assert agree(cfg, replace(launched, insn_addr=0x200000), verilator.run) is FaultCode.NONE, seed
