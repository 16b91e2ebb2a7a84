"""Verifier, reference semantics, simulator and RTL agree on random streams, of which many are illegal."""

import random
from collections import Counter

import pytest
from any_streams import any_stream, small_machine
from comparison import data_differences
from verdicts import contradictions, contradictions_of_rtl, meant, meant_anyhow, verified

from lathe.isa import FaultCode, FindingKind
from lathe.rtl.engines import pysim, verilator

QUEUE_DEPTHS = (1, 2, 3, 8)
OF_THE_BUS = {FaultCode.READ_ERROR, FaultCode.WRITE_ERROR}
OF_BITS = {FaultCode.OPCODE}
OF_RESCALE = {FaultCode.PAR_RANGE, FaultCode.ACC_REUSE}  # and the finding RAW_HAZARD: see test_rescale.py
HARMLESS = {
    FindingKind.UNINITIALISED,
    FindingKind.SHIFT_AMOUNT,
    FindingKind.RESERVED_BITS,
}  # the result is the same in every order


def verdicts(seeds):
    """The number of outcomes with each fault, and of streams with each kind of finding."""
    ends, kinds = Counter(), Counter()
    for seed in seeds:
        rng = random.Random(seed)
        cfg = small_machine(rng.choice(QUEUE_DEPTHS))
        found, findings, ended = contradictions(cfg, any_stream(rng, cfg, long_loops=rng.random() < 0.02))
        assert not found, (seed, found, findings)
        ends.update(end.fault[0] if end.fault else FaultCode.NONE for end in ended.values())
        kinds.update({finding.kind for finding in findings} or {None})
    return ends, kinds


@pytest.mark.seeds(40, slow=1160, block=100)
def test_verifier_semantics_and_simulator_agree(seeds):
    ends, kinds = verdicts(seeds)
    assert kinds[None] >= len(seeds) / 10, "streams without a finding"
    assert ends[FaultCode.NONE] >= len(seeds) / 2, "streams without a fault, in both"


@pytest.mark.seeds(32, slow=1128, block=80)
def test_a_stream_without_findings_has_the_same_result_in_every_order(seeds):
    tried = 0
    for seed in seeds:
        rng = random.Random(seed)
        cfg = small_machine(rng.choice(QUEUE_DEPTHS))
        stream = any_stream(rng, cfg, most=rng.choice([12, 30]))
        if {finding.kind for finding in verified(cfg, stream)} <= HARMLESS:
            tried += 1
            expected = meant(cfg, stream)
            for _ in range(3):
                found = meant_anyhow(cfg, stream, rng)
                assert found.tokens == expected.tokens, seed
                assert not data_differences(found.pages, expected.pages), seed
    assert tried >= len(seeds) / 10


@pytest.mark.slow
def test_every_fault_and_every_finding_occurs():
    ends, kinds = verdicts(range(10_000, 11_500))
    assert set(ends) == set(FaultCode) - OF_THE_BUS - OF_BITS - OF_RESCALE
    # Streams have no segments and no required token counts at their end, so these kinds do not occur.
    of_programs = {FindingKind.FIELD, FindingKind.DRAM_RANGE, FindingKind.UNINITIALISED_DRAM, FindingKind.UNBALANCED}
    assert set(kinds) == set(FindingKind) - of_programs - {FindingKind.RAW_HAZARD} | {None}


def on_rtl(seeds, queue_depth, run):
    """The faults of streams on the RTL, which must equal those of the simulator, in the same cycle."""
    cfg = small_machine(queue_depth)
    streams = [any_stream(random.Random(seed), cfg) for seed in seeds]
    found, codes = contradictions_of_rtl(cfg, streams, run)
    assert not found, {seeds[index]: differences for index, differences in found.items()}
    return Counter(codes)


@pytest.mark.slow
def test_the_rtl_agrees_with_the_simulator():
    codes = on_rtl(range(60), 2, pysim.run)
    assert codes[FaultCode.NONE] > 15
    assert len(codes) > 5


@pytest.mark.slow
def test_the_verilated_machine_agrees_with_the_simulator():
    codes = on_rtl(range(1000, 3000), 3, verilator.run)
    assert set(codes) == set(FaultCode) - OF_THE_BUS - OF_BITS - OF_RESCALE


@pytest.mark.nightly
@pytest.mark.parametrize("queue_depth", QUEUE_DEPTHS)
@pytest.mark.seeds(20_000, first=20_000, block=5000)
def test_many_streams_have_one_verdict(seeds, queue_depth):
    verdicts(seeds)
    on_rtl(seeds, queue_depth, verilator.run)
