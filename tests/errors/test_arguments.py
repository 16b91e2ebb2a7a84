"""Arguments of wrong types in scripts: one sentence that names the argument, and a file with objects."""

import numpy as np
import pytest
from click.testing import CliRunner
from error_checks import check_mentions

import lathe as lt
from lathe.command_line import main
from lathe.configs import LatheError

SHIPPED = ", ".join(lt.shipped_configs())

CONFIG = lt.load_config("vta")
A = lt.placeholder((4, 16), "int8", name="A")
B = lt.relu(A, name="B")
ZEROS = np.zeros(A.shape, np.int8)

PROGRAM = lt.build(B, [A, B], CONFIG)
FINISH = [3] + [0] * 15
STREAM = {"insns": [FINISH], "insn_addr": 0, "page_addrs": [0], "pages": [[0] * 4096], "tokens": [0] * 4}


def big(extent: int) -> lt.Tensor:
    return lt.relu(lt.placeholder((extent, 16), "int8", name="A"), name="B")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


WIDE = lt.placeholder((10**8, 10**8), "int8", name="W")
FOLDED = np.broadcast_to(np.int8(1), WIDE.shape)

# fmt: off
MISTAKES = {
    "lists deeper than Python's stack": (lambda: lt.reference(B, {"A": nested(3000)}),
        "input 'A' must be an array of int8, not <list that cannot be shown>, which is ragged."),
    "lists deeper than Python's stack, for the machine": (lambda: lt.simulate(PROGRAM, {"A": nested(3000)}),
        "Input 'A' of the program must have shape (4, 16) and dtype int8, not be <list that cannot be shown>, which "
        "is ragged. Convert the array first."),
    "lists deeper than Python's stack, as a constant": (
        lambda: lt.build(B, [A, B], CONFIG, constants={"A": nested(3000)}),
        "constant 'A' of build must be an array of shape (4, 16) and dtype int8, not <list that cannot be "
        "shown>, which is ragged.",
    ),
    "arrays that no memory holds": (lambda: lt.reference(lt.relu(WIDE), {"W": FOLDED}),
        "Cannot allocate the arrays of the program's NumPy reference: they need 20000000000000000 bytes, and must fit "
        "in this computer's memory. Use smaller tensors, or split the program."),
    "a file's name with a null character": (lambda: PROGRAM.save("a\0b"),
        "The path of the output file must have no null characters, not be 'a\\x00b'."),
    "the name of a machine": (lambda: lt.build(B, [A, B], "vta"),
        "machine of build must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "the name of a machine to lower": (lambda: lt.lower(B, [A, B], "vta"),
        "machine of lower must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "the name of a machine to bound": (lambda: lt.bound(B, "vta"),
        "machine of bound must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "no program to bound": (lambda: lt.bound(None, CONFIG),
        "outputs of a program must be one tensor or several, not None."),
    "no outputs to bound": (lambda: lt.bound([], CONFIG),
        "outputs of a program must be one tensor or several, not []."),
    "a number among outputs to bound": (lambda: lt.bound([B, 3], CONFIG),
        "outputs of a program must be tensors, not 3."),
    "an input to bound": (lambda: lt.bound(A, CONFIG),
        "outputs of a program must be computed, not 'A', which is an input. To output an input, copy it with compute."),
    "parameters of a program to bound that has none": (lambda: lt.bound(B, CONFIG, parameters={"n": 3}),
        "parameters of bound must be those of the program (none), not 'n'."),
    "a list of constants": (lambda: lt.build(B, [A, B], CONFIG, constants=[1]),
        "constants of build must map names of inputs to arrays, not be [1]."),
    "no tensors": (lambda: lt.build(B, None, CONFIG), "tensors of build must be a list of tensors, not None."),
    "an output that is an input": (lambda: lt.build(A, [A], CONFIG),
        "outputs of a program must be computed, not 'A', which is an input. To output an input, copy it with compute."),
    "no program": (lambda: lt.simulate(B, {"A": np.zeros((4, 16), np.int8)}),
        "The program to simulate must be a Program, not Tensor(B: int8[4, 16]). It is what build returns."),
    "a list of inputs": (lambda: lt.simulate(lt.build(B, [A, B], CONFIG), [1]),
        "The inputs of the program must be arrays by their names, not [1]."),
    "a number for a machine": (lambda: lt.load_config(3),
        f"The configuration must be one of {SHIPPED}, or the path of a YAML or JSON file, "
        "not 3."),
    "a number for a stream": (lambda: lt.replay(CONFIG, 3),
        "The stream must be the path of an .npz file, or a mapping with the keys insns, insn_addr, page_addrs, "
        "pages, tokens, not 3."),
    "a number for a stream on several engines": (lambda: lt.cosimulate_stream(CONFIG, 3),
        "The stream must be the path of an .npz file, or a mapping with the keys insns, insn_addr, page_addrs, "
        "pages, tokens, not 3."),
    "the name of a machine to replay on": (lambda: lt.replay("vta", {}),
        "machine of replay must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "a number for a program to verify": (lambda: lt.verify(3),
        "The program to verify must be a Program, not 3. build returns one."),
    "a number for a program on several engines": (lambda: lt.cosimulate(3, {}),
        "The program to simulate must be a Program, not 3. It is what build returns."),
    "a number for a program's file": (lambda: lt.Program.load(3),
        "The program file must be a path, not 3."),
    "no engine": (lambda: lt.simulate(lt.build(B, [A, B], CONFIG), {"A": ZEROS}, engine=None),
        "The engine must be one of sim, pysim, verilator, not None. Choose one of these."),
    "no engine to replay on": (lambda: lt.replay(CONFIG, {}, engine=None),
        "The engine must be one of sim, pysim, verilator, not None. Choose one of these."),
    "an engine with a slip": (lambda: lt.replay(CONFIG, {}, engine="verilater"),
        "The engine must be one of sim, pysim, verilator, not 'verilater'. Did you mean 'verilator'?"),
    "one engine for a list": (lambda: lt.cosimulate(lt.build(B, [A, B], CONFIG), {"A": ZEROS}, engines="sim"),
        "The engines of a cosimulation must be a list of their names, not 'sim'. Leave them out for sim and "
        "verilator."),
    "a number for a waveform": (lambda: lt.simulate(lt.build(B, [A, B], CONFIG), {"A": ZEROS}, engine="pysim", wave=3),
        ("waveform", "engine 'pysim'", ".vcd file", "not 3")),
    "a word for tokens": (lambda: lt.simulate(lt.build(B, [A, B], CONFIG), {"A": ZEROS}, tokens="none"),
        "tokens of a launch must be four counts from 0 to 65535, not 'none'. Their order is load->compute, "
        "compute->load, compute->store, store->compute."),
    "the name of a machine to disassemble for": (lambda: lt.disassemble("vta", []),
        "machine of disassemble must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "a number for instructions": (lambda: lt.disassemble(CONFIG, 3),
        "instructions of disassemble must be a list of instructions or an array of their bytes, (N, 16) uint8, not 3."),
    "the name of a machine to assemble for": (lambda: lt.assemble("vta", "finish"),
        "machine of assemble must be a HardwareConfig, not 'vta'. Make one with load_config."),
    "a number for a text": (lambda: lt.assemble(CONFIG, 3), "text of assemble must be a string, not 3."),
    "no place for a program": (lambda: PROGRAM.save(None), "The output file must be a path, not None."),
    "an empty place for a program": (lambda: PROGRAM.save(""), "The output file must be a path, not ''."),
    "bytes for a place": (lambda: PROGRAM.save(b"p.npz"), "The output file must be a path, not b'p.npz'."),
    "no place for a trace": (lambda: lt.simulate(PROGRAM, {"A": ZEROS}).write_chrome_trace(None),
        "The output file must be a path, not None."),
    "no place for what a replay leaves": (lambda: lt.replay(CONFIG, STREAM).save(3),
        "The output file must be a path, not 3."),
    "an output of time alone": (lambda: lt.simulate(PROGRAM, timing_only=True).outputs["B"],
        "Cannot return output 'B' of this result: only its timing was simulated. Simulate without timing_only, and "
        "with inputs."),
    "an output of time alone on the RTL": (lambda: lt.simulate(PROGRAM, timing_only=True, engine="pysim").outputs["B"],
        "Cannot return output 'B' of this result: only its timing was simulated. Simulate without timing_only, and "
        "with inputs."),
    "an output that there is not": (lambda: lt.simulate(PROGRAM, {"A": ZEROS}).outputs["y"],
        "The name of an output must be one of the program's, B, not 'y'. Correct the name."),
    "a name of a machine that no file has": (
        lambda: lt.load_config("a" * 5000),
        f"The configuration must be one of {SHIPPED}, or the path of a YAML or JSON file, "
        f"not '{'a' * 56}....",
    ),
    "an empty mapping for a stream": (lambda: lt.replay(CONFIG, {}),
        "The keys of the stream must include insns, and there are none. Add the array."),
    "more than instructions can address": (
        lambda: lt.build(b := big(1 << 40), [b.computation.reads[0].tensor, b], CONFIG),
        ("tensor 'A'", "DRAM", "byte 17592186048512", "byte 17179869184"),
    ),
}
# fmt: on


@pytest.mark.sample(5)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_message(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(LatheError) as caught:
        make()
    if isinstance(message, tuple):
        check_mentions(caught.value, *message)
    else:
        assert str(caught.value) == message


def refused(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 2, result.output
    return result.stderr.removeprefix("Error: ").removesuffix("\n")


def test_a_script_that_is_not_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("import lathe\ndef main(cfg:\n")
    check_mentions(refused("run", "s.py"), "script 's.py', line 2", "Python", "'(' was never closed")
    (tmp_path / "m.yaml").write_text("# blocks\nblock in: 8\n")
    check_mentions(refused("run", "m.yaml"), "script 'm.yaml', line 2", "Python", "invalid syntax", "-c")
    (tmp_path / "m.yaml").unlink()
    (tmp_path / "s.py").write_bytes(b"x = 1\0")
    check_mentions(refused("compile", "s.py", "-o", "p.npz"), "script 's.py'")
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]


def test_inputs_that_are_python_objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lt.build(B, [A, B], CONFIG).save("p.npz")
    np.savez("in.npz", A=np.array([{}], dtype=object))
    check_mentions(refused("simulate", "p.npz", "in.npz"), "inputs from 'in.npz'", "array 'A'", ".npz", "numpy.savez")
