"""Programs and results print as one line, without their arrays."""

import numpy as np

import lathe as lt


def test_programs_and_results_are_printed_in_a_line():
    cfg = lt.load_config("tiny")
    data = lt.placeholder((16, 16), "int8", name="A")
    relu = lt.compute((16, 16), lambda i, j: lt.max(data[i, j], 0), name="D")
    program = lt.build(relu, [data, relu], cfg)
    inputs = {"A": np.zeros((16, 16), np.int8)}
    result = lt.simulate(program, inputs)
    both = lt.cosimulate(program, inputs, engines=("sim", "pysim"))
    assert str(program) == f"Program(tiny, {len(program.instructions)} instructions, input A, output D)"
    assert str(result) == f"Result({result.cycles} cycles, D: int8 (16, 16))"
    assert str(lt.simulate(program, timing_only=True)) == f"Result({result.cycles} cycles)"
    assert str(both) == f"Cosimulation(sim, pysim: all equal, {result.cycles} cycles)"
    assert str(lt.Cosimulation(both.results, ("Cycles differ.",))) == "Cosimulation(sim, pysim: 1 differences)"
