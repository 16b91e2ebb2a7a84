"""``build(..., check=...)``: its arguments, and which pass ``"passes"`` names."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from error_checks import raises

import lathe as lt
from lathe.builder import validate_builds
from lathe.frontend.expr.nodes import Binary, Const

completion = import_module("lathe.scheduler.passes.pipeline")
allocation = import_module("lathe.scheduler.allocation.allocation")


def doubled() -> list[lt.Tensor]:
    A = lt.placeholder((5, 16), "int8", name="A")
    return [A, lt.compute((5, 16), lambda i, j: A[i, j] + A[i, j], name="B")]


def build(**options) -> lt.Program:
    A, B = doubled()
    return lt.build(B, [A, B], lt.load_config("vta"), **options)


@pytest.mark.parametrize("check", [True, "passes"])
def test_a_check_does_not_change_a_correct_program(check):
    assert build(check=check).instructions == build().instructions


def test_the_pass_that_changes_the_meaning_of_the_nest_is_named(monkeypatch):
    (right,) = (each for each in completion.PASSES if each.name == "normalize-compute-at")

    def faulty(schedule, target):
        right.run(schedule, target)
        (stage,) = schedule.stages
        one = Const(1, "int8")
        computation = stage.state.computation.mapped(lambda body: Binary("add", body, one))
        stage.change(computation=computation)

    passes = tuple(replace(each, run=faulty) if each is right else each for each in completion.PASSES)
    monkeypatch.setattr(completion, "PASSES", passes)
    mentions = ("normalize-compute-at", "B[0, 0]", -66, -65, "seed 0")
    raises(lt.ValidationError, build, check="passes", kind="legality", mentions=mentions)
    with pytest.raises(
        lt.ValidationError, match=r'^B\[0, 0\] of the program .* build\(\.\.\., check="passes"\) names it'
    ):
        build(check=True)


def test_overlapping_buffers_are_found(monkeypatch):
    def overlapping(buffers, room, apart):  # noqa: ARG001 - the signature of the function that it replaces
        # Memories that the machine does not have get no buffers.
        return {id(each): 0 for each in buffers} if room > 0 or not buffers else None

    monkeypatch.setattr(allocation, "_first_fit", overlapping)
    monkeypatch.setattr(allocation, "_spread", lambda *_, **__: None)
    A, B = lt.placeholder((4, 32), "int32", name="A"), lt.placeholder((4, 32), "int32", name="B")
    C = lt.compute((4, 32), lambda i, j: (A[i, j] >> 1) * B[i, j], name="C")
    program = lt.build(C, [A, B, C], lt.load_config("vta"))
    assert lt.verify(program) == []  # tokens order it, and no access is out of range
    with pytest.raises(lt.ValidationError, match=r"must leave A\.acc|must leave B\.acc|must leave C"):
        lt.build(C, [A, B, C], lt.load_config("vta"), check=True)


def test_bytes_of_constants_are_those_of_the_program(monkeypatch):
    build_module = import_module("lathe.scheduler.codegen.driver")
    packed = build_module.packed_bytes

    def damaged(segment, array):
        content = packed(segment, array)
        content[5] ^= 1
        return content

    monkeypatch.setattr(build_module, "packed_bytes", damaged)
    A, W = lt.placeholder((3, 16), "int8", name="A"), lt.placeholder((16, 16), "int8", name="W")
    C = lt.requantise(lt.matmul(A, W, transpose_b=True, name="P"), 10, name="C")
    weights = np.random.default_rng(0).integers(-128, 128, (16, 16), np.int8)
    with pytest.raises(lt.ValidationError, match="must leave P"):
        lt.build(C, [A, W, C], lt.load_config("vta"), constants={"W": weights}, check=True)


def test_outputs_whose_axes_a_pass_changes_are_compared():
    A = lt.placeholder((10, 32), "int8", name="A")
    C = lt.compute((10, 32), lambda i, j: A[i // 2, j], name="C")
    assert lt.build(C, [A, C], lt.load_config("tiny"), check="passes").instructions


def test_all_builds_in_a_context_can_be_checked(monkeypatch):
    asked = []
    monkeypatch.setattr(import_module("lathe.builder"), "validate", lambda *given: asked.append(given))
    build()
    with validate_builds():
        build()
    build()
    assert len(asked) == 1


@pytest.mark.parametrize("check", ["pass", None, 2])
def test_other_checks_are_refused(check):
    raises(
        lt.BuildError, build, check=check, kind="argument", mentions=("check", "build", "'passes'", f"not {check!r}")
    )


def test_the_command_line_checks_what_scripts_build(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from lathe.command_line import main

    script = tmp_path / "script.py"
    script.write_text(
        "import lathe as lt\n"
        "def build(cfg):\n"
        "    A = lt.placeholder((4, 16), name='A')\n"
        "    B = lt.relu(A, name='B')\n"
        "    return lt.build(B, [A, B], cfg)\n"
    )
    asked = []
    monkeypatch.setattr(import_module("lathe.builder"), "validate", lambda *given: asked.append(given))
    for extra in ([], ["--check"]):
        done = CliRunner().invoke(main, ["compile", str(script), "-o", str(tmp_path / "p.npz"), *extra])
        assert done.exit_code == 0, done.output
    assert len(asked) == 1


@pytest.mark.slow
def test_a_chunk_whose_first_loads_are_overwritten_before_its_last_load_is_valid():
    """Loads are reordered by use: the first half of a chunk's operands is consumed before the second half is loaded."""
    shape = {"batch": 4, "block_in": 32, "block_out": 8}
    buffers = {"uop_buffer_bytes": 4096, "acc_buffer_bytes": 32768, "inp_buffer_bytes": 32768}
    config = lt.load_config("vta").with_(**shape, **buffers, **{"memory.latency": 200})
    data = lt.placeholder((1, 13, 11, 40), "int8", name="data")
    kernel = lt.placeholder((40, 3, 3, 40), "int8", name="kernel")
    filters = [lt.placeholder((3, 3, 40), "int8", name=f"filters{n}") for n in range(2)]
    branch = lt.requantise(lt.relu(lt.conv2d(data, kernel, padding=1, name="conv")), 7, name="branch")
    made = lt.requantise(lt.add(branch, data, name="sum"), 1, name="narrowed")
    for n, each in enumerate(filters):
        made = lt.requantise(lt.depthwise_conv2d(made, each, padding=1, name=f"depthwise{n}"), 5, name=f"layer{n}")
    program = lt.build(made, [data, kernel, *filters, made], config, check=True)
    assert len(program.instructions) > 300
