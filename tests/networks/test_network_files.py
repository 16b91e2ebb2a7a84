"""Files of compiled networks: a loaded network gives the same results, and other files are refused."""

import numpy as np
import pytest
from error_checks import raises
from networks_checking import LATHE16, random_inputs
from qdq_models import QdqModel

import lathe as lt


def model():
    graph = QdqModel(seed=1, dtype="uint8")
    first = graph.conv(graph.input(1, 5, 6, 7), 12, relu=True, pads=[1, 1, 1, 1])
    softmax = graph.node("Softmax", first, axis=1)
    second = graph.conv(_noted(graph, softmax, first), 3)
    return graph.model(second)


def _noted(graph, data, like):
    made = graph.quantised(data, 1 / 256, 0)
    graph.shapes[made] = graph.shapes[like]
    return made


@pytest.fixture(scope="module")
def program():
    return lt.from_onnx(model()).build(LATHE16)


def test_a_network_is_loaded(program, tmp_path):
    program.save(tmp_path / "network.npz")
    again = lt.NetworkProgram.load(tmp_path / "network.npz")
    inputs = random_inputs(model())
    first, second = (lt.simulate(each, inputs) for each in (program, again))
    assert len(again.parts) == len(program.parts) == 2
    assert first.cycles == second.cycles
    assert first.layers == second.layers
    assert all(np.array_equal(first.outputs[name], second.outputs[name]) for name in program.outputs)
    for part in again.parts:
        assert lt.verify(part) == []


def test_files_that_are_no_networks(program, tmp_path):
    path = tmp_path / "network.npz"
    raises(lt.ProgramError, lt.NetworkProgram.load, path, mentions=(path, "read", "No such file"))
    program.parts[0].save(path)
    raises(lt.ProgramError, lt.NetworkProgram.load, path, mentions=(path, "network"))
    program.save(path)
    content = path.read_bytes()
    for damaged in (b"", b"PK", content[: len(content) // 2], content[:-1]):
        path.write_bytes(damaged)
        raises(lt.ProgramError, lt.NetworkProgram.load, path, mentions=(path, "network", "truncated"))


def test_timing_alone_needs_no_inputs_and_no_host(program):
    timed = lt.simulate(program, timing_only=True)
    assert timed.cycles == lt.simulate(program, random_inputs(model())).cycles
    assert timed.outputs == {}


@pytest.mark.parametrize(("name", "value"), [("tokens", (0, 0, 0, 0)), ("wave", "a.vcd")])
def test_options_of_programs(program, name, value):
    mentions = (f"{name} of simulate", "network", repr(value), "parts")
    raises(lt.EngineError, lt.simulate, program, random_inputs(model()), mentions=mentions, **{name: value})


def test_inputs_that_do_not_fit(program):
    for inputs, mentions in (
        (None, ("inputs", "(x)", None)),
        ({}, ("inputs", "x", "none")),
        ({"x": np.zeros((1, 5, 6, 7))}, ("input 'x'", "shape (1, 5, 6, 7)", "dtype float32", "dtype float64")),
    ):
        raises(lt.InputError, lt.simulate, program, inputs, mentions=mentions)


@pytest.mark.slow
def test_bits_and_cycles_on_the_rtl(program):
    inputs = random_inputs(model())
    on_rtl, simulated = (lt.simulate(program, inputs, engine=engine) for engine in ("verilator", "sim"))
    assert on_rtl.cycles == simulated.cycles
    assert on_rtl.layers == simulated.layers
    assert all(np.array_equal(on_rtl.outputs[name], simulated.outputs[name]) for name in program.outputs)
