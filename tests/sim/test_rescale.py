"""RESCALE in the simulator: faults with their cycles, busy cycles, and timing without data."""

import random

import numpy as np
import pytest
from error_checks import raises
from extended_machines import with_extensions
from rescaling import rescale_flags, rescale_of_time
from streams import Stream

from lathe.configs import load_config
from lathe.configs.extensions import EXTENSIONS
from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES
from lathe.isa import Columns, FaultCode, Finish, Load, MachineFault, MemoryType, PagedMemory, Rescale, encode_uops
from lathe.isa.semantics import MachineState, execute
from lathe.sim import replay
from lathe.sim.run_launch import launch

TINY = load_config("tiny")
CONFIGS = [with_extensions(TINY, names) for names in (("rescale", "rescale_add"), tuple(EXTENSIONS))]


def stream_of(cfg, columns, *instructions):
    """A stream that loads the micro-ops and executes the instructions."""
    words = encode_uops(cfg, *(np.array(column) for column in columns))
    page = np.zeros((1, 4096), np.uint8)
    page[0, : 4 * len(words)] = np.asarray(words, "<u4").view(np.uint8)
    load = Load(MemoryType.UOP, 0, 0, 1, len(words), len(words))
    return Stream([load, *instructions, Finish()], np.zeros(1, np.uint64), page)


def expected_fault(cfg, instruction, columns):
    """The code and issue cycle of the first fault; by brute force over all issue cycles."""
    late = RESCALE_STAGES + LOOKUP_STAGES * ("lookup" in cfg.extensions)
    steps, written = 0, []
    for outer in range(instruction.iter_out):
        for inner in range(instruction.iter_in):
            for number in range(instruction.uop_bgn, instruction.uop_end):
                dst, src, wgt = (column[number] for column in columns)
                moved = outer * instruction.dst_factor_out + inner * instruction.dst_factor_in
                wgt += outer * instruction.wgt_factor_out + inner * instruction.wgt_factor_in
                for reads in ((src,), (dst,)) if instruction.add else ((dst,),):
                    if reads[0] + moved >= cfg.acc_depth:
                        return FaultCode.ACC_RANGE, steps
                    last = steps % 2 == 1 or not instruction.add
                    if last and wgt >= cfg.par_depth:
                        return FaultCode.PAR_RANGE, steps
                    if reads[0] + moved in written[-late:]:
                        return FaultCode.ACC_REUSE, steps
                    written.append(dst + moved if last else None)
                    steps += 1
    return FaultCode.NONE, steps


@pytest.mark.seeds(30, slow=120)
def test_the_first_fault_is_reported_in_its_cycle(seed):
    rng = random.Random(seed)
    cfg = rng.choice(CONFIGS)
    count = rng.choice([1, 2, 5, 9, 14, 30])
    cells = rng.choice([20, 40, 200, 250])
    dst = rng.sample(range(max(cells, count)), count)
    columns = (dst, rng.choices(range(cells), k=count), rng.choices(range(rng.choice([60, 125])), k=count))
    factors = [rng.choice([0, 0, 1, 2, 7, 40]) for _ in range(4)]
    loops = (0, count, rng.choice([1, 1, 2, 9]), rng.choice([1, 1, 2, 3, 15]))
    instruction = Rescale(*loops, *factors, **rescale_flags(rng, cfg))
    code, steps = expected_fault(cfg, instruction, columns)
    stream = stream_of(cfg, columns, instruction)

    plain = MachineState(cfg, PagedMemory.of(stream.page_addrs, stream.pages))
    execute(plain, stream.instructions[0])
    if code is not FaultCode.NONE:
        with pytest.raises(MachineFault) as caught:
            execute(plain, instruction, "instruction 1 (RESCALE in compute)")
        with pytest.raises(MachineFault) as simulated:
            replay(cfg, stream.raw(cfg))
        fault = simulated.value
        assert (fault.code, caught.value.code) == (code, code), f"seed {seed}: {instruction} over {columns}"
        if code is FaultCode.ACC_REUSE:  # of indices out of range, the simulator reports the largest
            assert str(fault) == str(caught.value)
        # Indices are checked three stages after the issue; the start is that of the same stream without executions.
        idle = replay(cfg, stream_of(cfg, columns, Rescale(0, 0, 0, 0, 0, 0, 0, 0)).raw(cfg))
        (at,) = np.flatnonzero(idle.trace.instruction[idle.trace.unit == 1] == 1)
        start = int(idle.trace.start[idle.trace.unit == 1][at])
        assert fault.cycle == start + 4 + steps, f"seed {seed}: {instruction} over {columns}"
        return
    result = replay(cfg, stream.raw(cfg))
    late = RESCALE_STAGES + LOOKUP_STAGES * ("lookup" in cfg.extensions)
    assert result.counters.alu_operations_of["rescale"] == steps // (1 + instruction.add)
    others = replay(cfg, stream_of(cfg, columns).raw(cfg)).counters.units["compute"].busy
    assert result.counters.units["compute"].busy - others == steps + late


@pytest.mark.seeds(4, slow=16)
def test_timing_without_data_equals_that_of_a_run_with_data(seed):
    rng = random.Random(seed)
    cfg = with_extensions(TINY, tuple(EXTENSIONS))
    rescales = [rescale_of_time(rng, cfg) for _ in range(8)]
    stream = stream_of(cfg, ([0], [0], [0]), *rescales)
    counted = replay(cfg, stream.raw(cfg)).counters
    executed = [each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) for each in rescales]
    assert counted.alu_operations_of["rescale"] == sum(executed), f"seed {seed}"
    columns = Columns.of(stream.instructions)
    alone = launch(cfg, columns, stream.instructions, stream.insn_addr, stream.tokens, None, trace=False)
    assert alone.counters == counted, f"seed {seed}"


def test_loops_of_any_size_are_checked_at_once():
    cfg = with_extensions(TINY, ("rescale",))
    # The first hazard among 2 ** 27 executions is found without iterating over them.
    stream = stream_of(cfg, ([0], [0], [0]), Rescale(0, 1, (1 << 14) - 1, (1 << 14) - 1, 0, 0, 0, 0))
    mentions = ("acc", "dst of instruction 1 (RESCALE in compute)", RESCALE_STAGES, "not 0")
    fault = raises(MachineFault, replay, cfg, stream.raw(cfg), mentions=mentions)
    assert (fault.code, fault.instruction) == (FaultCode.ACC_REUSE, 1)
