"""Programs that VTA's compiler refuses or miscompiles run here, with manual and default schedules, on all machines."""

import numpy as np
import pytest
from beyond_vta import PROGRAMS, Scheduled
from checking import random_array

import lathe as lt


def inputs_of(program: Scheduled) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {t.name: random_array(t, generator) for t in program.tensors if t.computation is None}


@pytest.mark.sample(8)
@pytest.mark.parametrize("by", ["hand", "default"])
@pytest.mark.parametrize("config", lt.shipped_configs())
@pytest.mark.parametrize("make", PROGRAMS)
def test_on_machines(make, config, by):
    cfg = lt.load_config(config)
    made = make(cfg)
    program = lt.build(made.schedule if by == "hand" else made.output, made.tensors, cfg)
    assert lt.verify(program) == []
    inputs = inputs_of(made)
    found = lt.simulate(program, inputs).outputs[made.output.name]
    np.testing.assert_array_equal(found, lt.reference(made.output, inputs))
    assert (made.schedule if by == "hand" else lt.create_schedule(made.output)).explain(cfg).maps


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", PROGRAMS)
def test_the_rtl_agrees_in_every_cycle(make):
    cfg = lt.load_config("tiny")
    made = make(cfg)
    inputs = inputs_of(made)
    ran = lt.cosimulate(lt.build(made.schedule, made.tensors, cfg), inputs, engines=("sim", "pysim")).check()
    np.testing.assert_array_equal(ran.outputs[made.output.name], lt.reference(made.output, inputs))


def test_40000_is_not_cut_to_16_bits():
    """VTA's compiler computes (40000 − 65536) >> 8 = −100."""
    cfg = lt.load_config("vta")
    A = lt.placeholder((64,), "int32", name="A")
    out = lt.compute((64,), lambda i: lt.min(A[i], 40000) >> 8, name="out")
    program = lt.build(out, [A, out], cfg)
    found = lt.simulate(program, {"A": np.full(64, 1_000_000, np.int32)}).outputs["out"]
    assert found.tolist() == [156] * 64
