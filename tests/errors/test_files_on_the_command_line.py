"""Invalid forms of every file that a command reads: one paragraph, exit status 2, and no partial output."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from qdq_models import QdqModel
from recurrent_models import RecurrentModel

import lathe as lt
from lathe.command_line import main
from lathe.isa import encode

CONFIG = lt.load_config("tiny")
A = lt.placeholder((2, 4), "int8", name="A")
B = lt.relu(A, name="B")
SCRIPT = """
import lathe as lt

def build(cfg):
    A = lt.placeholder((2, 4), "int8", name="A")
    B = lt.relu(A, name="B")
    return lt.build(B, [A, B], cfg)
"""
SWEEP = "base: tiny\nworkloads:\n  - relu: {height: 1, width: 2, channels: 4}\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with one valid file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    lt.build(B, [A, B], CONFIG).save(folder / "program.npz")
    stream = {"insns": encode(CONFIG, [lt.Finish()]), "insn_addr": np.uint64(16), "tokens": np.zeros(4, np.int64)}
    stream |= {"page_addrs": np.zeros(1, np.uint64), "pages": np.zeros((1, 4096), np.uint8)}
    after = {"after_addrs": np.zeros(0, np.uint64), "after_pages": np.zeros((0, 4096), np.uint8)}
    np.savez(folder / "stream.npz", **stream, **after, after_tokens=np.zeros(4, np.int64))
    np.savez(folder / "inputs.npz", A=np.ones((2, 4), np.int8))
    (folder / "text.asm").write_text("finish\n")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "machine.yaml").write_bytes(Path(lt.configs.__file__).with_name("tiny.yaml").read_bytes())
    (folder / "sweep.yaml").write_text(SWEEP)
    lt.sweep(folder / "sweep.yaml", output=folder / "results.db", jobs=1)
    graph = QdqModel()
    model = graph.model(graph.conv(graph.input(1, 3, 4, 4), 4))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    graph = RecurrentModel()
    (folder / "float.onnx").write_bytes(graph.model(graph.product(graph.input(1, 4), 4, 4)).SerializeToString())
    np.savez(folder / "samples.npz", x=np.ones((2, 1, 4), np.float32))
    lt.from_onnx(model).build(lt.load_config("lathe16")).save(folder / "network.npz")
    return folder


# Valid command lines; {} is a valid file of a kind, which tests replace by an invalid one.
READS = {
    "run a script": ("run {script.py}", "-c tiny"),
    "run on a machine": ("run -c {machine.yaml}", "--images 1 -o t.json"),
    "compile": ("compile {script.py}", "-c tiny -o o.npz"),
    "compile for a machine": ("compile -c {machine.yaml}", "--batch 1 -o o.npz"),
    "explain": ("explain {script.py}", "-c tiny"),
    "explain on a machine": ("explain -c {machine.yaml}", "--batch 1"),
    "simulate": ("simulate {program.npz}", "--random 0 -o o.npz --trace t.json"),
    "simulate on inputs": ("simulate GOOD/program.npz {inputs.npz}", "-o o.npz"),
    "run a model": ("run {model.onnx}", "-c lathe16"),
    "compile a model": ("compile {model.onnx}", "-c lathe16 -o o.npz"),
    "explain a model": ("explain {model.onnx}", "-c lathe16"),
    "simulate a model": ("simulate {model.onnx}", "-c lathe16 --timing-only --trace t.json"),
    "simulate a network": ("simulate {network.npz}", "--random 0 -o o.npz --trace t.json"),
    "disasm a network": ("disasm {network.npz}", "-o o.txt"),
    "verify a network": ("verify {network.npz}", ""),
    "quantize": ("quantize {float.onnx}", "-o o.onnx"),
    "quantize with data": ("quantize GOOD/float.onnx --calibration {samples.npz}", "-o o.onnx"),
    "replay": ("replay {stream.npz}", "-c tiny -o o.npz"),
    "replay and check": ("replay --check {stream.npz}", "-c tiny -o o.npz"),
    "replay on a machine": ("replay GOOD/stream.npz -c {machine.yaml}", "-o o.npz"),
    "disasm": ("disasm {program.npz}", "-o o.txt"),
    "disasm a stream": ("disasm {stream.npz}", "-c tiny -o o.txt"),
    "asm": ("asm {text.asm}", "-c tiny -o o.npz"),
    "asm into a program": ("asm GOOD/text.asm --into {program.npz}", "-o o.npz"),
    "asm into a stream": ("asm GOOD/text.asm --into {stream.npz}", "-c tiny -o o.npz"),
    "verify": ("verify {program.npz}", ""),
    "verify a stream": ("verify {stream.npz}", "-c tiny"),
    "sweep": ("sweep {sweep.yaml}", "--jobs 1 -o o.csv"),
    "sweep into a store": ("sweep {sweep.yaml}", "--jobs 1 -o o.db"),
    "results": ("results {results.db}", "--csv -o o.csv"),
    "rtl verilog": ("rtl verilog -c {machine.yaml}", "-o o.v"),
    "rtl stats": ("rtl stats -c {machine.yaml}", ""),
    "configs": ("configs {machine.yaml}", ""),
}
WRONG = ("missing", "empty", "folder", "too long", "array", "binary", "nested", "another kind")


def wrong_file(form, kind, good):
    """The path of a missing or invalid file of a kind."""
    path = Path(f"wrong{Path(kind).suffix}")
    if form == "too long":
        return "a" * 5000
    if form == "folder":
        path.mkdir()
    elif form == "empty":
        path.write_bytes(b"")
    elif form == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif form == "binary":
        path.write_bytes(random.Random(0).randbytes(5000))
    elif form == "nested":
        path.write_text("[" * 300)
    elif form == "another kind":
        path.write_bytes((good / ("sweep.yaml" if kind == "machine.yaml" else "inputs.npz")).read_bytes())
        if kind == "inputs.npz":
            np.savez(path, A=np.array([{}], object))
    return str(path)


def outcome(words):
    """Exit status and error output; a refused command prints one paragraph and writes nothing."""
    before = sorted(os.listdir())
    result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 2:
        assert result.stdout == ""
        assert result.stderr.startswith("Error: "), result.stderr
        assert result.stderr.count("\n") == 1, result.stderr
        assert sorted(os.listdir()) == before
    return result.exit_code, result.stderr


def command_of(name, good, file=None):
    """The words of a command line, with `file` instead of the valid one."""
    words = " ".join(READS[name]).replace("GOOD", str(good)).split()
    return [(file or str(good / word[1:-1])) if word.startswith("{") else word for word in words]


def kind_of(name):
    """The valid file of a command."""
    return READS[name][0].partition("{")[2].partition("}")[0]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [name for name in READS if not name.startswith("rtl")])  # which take seconds
def test_the_command_is_right_with_a_good_file(name, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = command_of(name, good)
    assert CliRunner().invoke(main, words).exit_code == 0, words


@pytest.mark.sample(64)
@pytest.mark.parametrize("form", WRONG)
@pytest.mark.parametrize("name", READS)
def test_a_wrong_file_is_refused(name, form, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = kind_of(name)
    words = command_of(name, good, wrong_file(form, kind, good))
    if name == "run a script" and form == "empty":  # Python runs an empty script, too
        assert outcome(words) == (0, "")
        return
    status, said = outcome(words)
    assert status == 2, said


WRITES = {
    "run": "run -c tiny --images 1 -o {o.json}",
    "compile": "compile -c tiny --batch 1 -o {o.npz}",
    "simulate": "simulate GOOD/program.npz --random 0 -o {o.npz}",
    "a trace": "simulate GOOD/program.npz --random 0 --trace {o.json}",
    "a waveform": "simulate GOOD/program.npz --random 0 --engine pysim --wave {o.vcd}",
    "quantize": "quantize GOOD/float.onnx -o {o.onnx}",
    "replay": "replay GOOD/stream.npz -c tiny -o {o.npz}",
    "a trace of a stream": "replay GOOD/stream.npz -c tiny --trace {o.json}",
    "disasm": "disasm GOOD/program.npz -o {o.txt}",
    "asm": "asm GOOD/text.asm -o {o.npz}",
    "sweep": "sweep GOOD/sweep.yaml --jobs 1 -o {o.csv}",
    "sweep into a store": "sweep GOOD/sweep.yaml --jobs 1 -o {o.db}",
    "results": "results GOOD/results.db --csv -o {o.csv}",
    "rtl verilog": "rtl verilog -c tiny -o {o.v}",
}


@pytest.mark.parametrize("form", ["in no folder", "a folder", "too long", "in a file"])
@pytest.mark.parametrize("name", WRITES)
def test_a_place_that_cannot_be_written_to_is_refused(name, form, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line, _, rest = WRITES[name].replace("GOOD", str(good)).partition("{")
    target = rest.rstrip("}")
    suffix = Path(target).suffix
    places = {"in no folder": f"none/{target}", "too long": "a" * 5000 + suffix}
    place = places.get(form, target)
    if form == "a folder":
        Path(target).mkdir()
    elif form == "in a file":
        Path("file").write_text("")
        place = f"file/{target}"
    status, said = outcome([*line.split(), place])
    assert status == 2, said


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("command", ["verify", "replay --check", "simulate --random 0"])
def test_a_flipped_bit_is_refused_or_changes_nothing(command, seed, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = "stream.npz" if "replay" in command else "program.npz"
    words = [*command.split(), "flipped.npz", *(["-c", "tiny"] if "replay" in command else [])]
    content = (good / kind).read_bytes()
    Path("flipped.npz").write_bytes(content)
    expected = CliRunner().invoke(main, words).stdout
    generator = random.Random(seed)
    # Headers have no checksum of their own; they are in the first bytes of members and in the archive's directory.
    places = [at for at in range(len(content)) if at < 500 or at > len(content) - 1000]
    for _ in range(12):
        at, bit = generator.choice(places), generator.randrange(8)
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        Path("flipped.npz").write_bytes(flipped)
        status, said = outcome(words)
        assert status == 2 or CliRunner().invoke(main, words).stdout == expected, (seed, at, bit, said)
