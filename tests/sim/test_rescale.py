"""RESCALE in the simulator: which fault in which cycle, how long it takes, and time without data."""

import random

import numpy as np
import pytest
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
    """Loads the micro-ops and carries out the instructions."""
    words = encode_uops(cfg, *(np.array(column) for column in columns))
    page = np.zeros((1, 4096), np.uint8)
    page[0, : 4 * len(words)] = np.asarray(words, "<u4").view(np.uint8)
    load = Load(MemoryType.UOP, 0, 0, 1, len(words), len(words))
    return Stream([load, *instructions, Finish()], np.zeros(1, np.uint64), page)


def expected_fault(cfg, instruction, columns):
    """The first step that must not be, with its code; by brute force over all steps."""
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


@pytest.mark.seeds(150)
def test_the_first_step_that_must_not_be_is_told_in_its_cycle(seed):
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
        if code is FaultCode.ACC_REUSE:  # of those beyond, the simulator tells the greatest of all
            assert str(fault) == str(caught.value)
        # The index stage is the third after a step; the start is that of the same stream without executions.
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


@pytest.mark.seeds(20)
def test_time_alone_is_that_of_a_run_with_data(seed):
    rng = random.Random(seed)
    cfg = with_extensions(TINY, tuple(EXTENSIONS))
    rescales = [rescale_of_time(rng, cfg) for _ in range(8)]
    found = stream_of(cfg, ([0], [0], [0]), *rescales)
    counted = replay(cfg, found.raw(cfg)).counters
    executed = [each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) for each in rescales]
    assert counted.alu_operations_of["rescale"] == sum(executed), f"seed {seed}"
    columns = Columns.of(found.instructions)
    alone = launch(cfg, columns, found.instructions, found.insn_addr, found.tokens, None, trace=False)
    assert alone.counters == counted, f"seed {seed}"


def test_loops_of_any_size_are_looked_at_at_once():
    cfg = with_extensions(TINY, ("rescale",))
    # Of 2 ** 27 executions the first that reads what is not there yet is found without going through them.
    stream = stream_of(cfg, ([0], [0], [0]), Rescale(0, 1, (1 << 14) - 1, (1 << 14) - 1, 0, 0, 0, 0))
    with pytest.raises(MachineFault) as caught:
        replay(cfg, stream.raw(cfg))
    assert (caught.value.code, caught.value.instruction) == (FaultCode.ACC_REUSE, 1)
    assert str(caught.value) == (
        f"acc element dst of instruction 1 (RESCALE in compute) must be one that none of the {RESCALE_STAGES} steps "
        "before writes, not 0. Its new value is not there yet; let micro-ops of other elements come between."
    )
