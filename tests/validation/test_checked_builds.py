"""``build(..., check=...)``: what it takes, and which pass ``"passes"`` names."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

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
def test_a_right_program_is_what_it_is_without_a_check(check):
    assert build(check=check).instructions == build().instructions


def test_the_pass_after_which_the_nest_is_another_is_named(monkeypatch):
    (right,) = (each for each in completion.PASSES if each.name == "normalize-compute-at")

    def faulty(schedule, target):
        right.run(schedule, target)
        (stage,) = schedule.stages
        one = Const(1, "int8")
        computation = stage.state.computation.mapped(lambda body: Binary("add", body, one))
        stage.change(computation=computation)

    passes = tuple(replace(each, run=faulty) if each is right else each for each in completion.PASSES)
    monkeypatch.setattr(completion, "PASSES", passes)
    with pytest.raises(lt.ValidationError) as caught:
        build(check="passes")
    assert str(caught.value) == (
        "loop nest after normalize-compute-at must make B[0, 0] = -66, as NumPy does, not -65 (random inputs of seed "
        "0). "
        "If nothing that is undefined is used, it is a fault of the compiler."
    )
    with pytest.raises(
        lt.ValidationError, match=r'^B\[0, 0\] of the program .* build\(\.\.\., check="passes"\) names it'
    ):
        build(check=True)


def test_buffers_over_each_other_are_found(monkeypatch):
    def overlapping(buffers, room, apart):  # noqa: ARG001 - as the one that it stands for
        # Of memories that the machine is without nothing is asked.
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


def test_outputs_that_passes_give_other_axes_are_compared():
    A = lt.placeholder((10, 32), "int8", name="A")
    C = lt.compute((10, 32), lambda i, j: A[i // 2, j], name="C")
    assert lt.build(C, [A, C], lt.load_config("tiny"), check="passes").instructions


def test_builds_of_others_can_be_checked_from_outside(monkeypatch):
    asked = []
    monkeypatch.setattr(import_module("lathe.builder"), "validate", lambda *given: asked.append(given))
    build()
    with validate_builds():
        build()
    build()
    assert len(asked) == 1


@pytest.mark.parametrize("check", ["pass", None, 2])
def test_other_checks_are_refused(check):
    with pytest.raises(lt.BuildError) as caught:
        build(check=check)
    assert str(caught.value) == f"check of build must be True, False or 'passes', not {check!r}."


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


def test_what_others_have_loaded_over_it_before_its_chunk_is_through_was_there():
    """Loads come as they are wanted: the first half of a chunk's is used and gone before the second half is loaded."""
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
