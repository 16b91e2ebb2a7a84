"""Resolution of selects in printed chunks: no conditions on loops are left, and the meaning is the same."""

import re
from contextlib import suppress

import pytest
from meanings import check_values
from nests import CONFIG, text
from random_commands import LOOPS, commands
from random_programs import Choice, programs, random_inputs

from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.frontend.operators import conv2d, max_pool2d, pad2d
from lathe.scheduler import LegalityError, ScheduleError, create_schedule, lower
from lathe.scheduler.inspect.print_levels import level
from lathe.scheduler.isel.resolve_selects import resolve_selects
from lathe.scheduler.isel.rules.rule import emit_rule
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.interpret import interpret_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import run_pipeline


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.seeds(10, slow=140)
def test_resolved_nests_mean_the_same(seed, largest):
    choice = Choice(seed)
    outputs = programs(choice, choice.number(1, 5))
    schedule = create_schedule(outputs)
    for _ in range(choice.number(0, 8)):
        with suppress(LegalityError, ScheduleError):
            commands(choice, schedule, LOOPS).run(schedule)
    inputs = random_inputs(outputs, seed=1)
    nest = resolve_selects(partition(build_nest(schedule, largest_blocks=largest)))
    check_values(interpret_nest(schedule, nest, inputs), outputs, inputs)


def by_default(*tensors: Tensor) -> str:
    return lower(tensors[-1], tensors, CONFIG, "chunks")


def padded_by_tiles() -> tuple[Tensor, Tensor, Tensor]:
    A, W = placeholder((1, 56, 56, 64), "int8", "A"), placeholder((64, 3, 3, 64), "int8", "W")
    return A, W, conv2d(A, W, padding=1, name="C")


def test_padded_loads_of_the_default_schedule_show_their_zeros_for_each_class_of_tiles():
    chunks = [line.strip() for line in by_default(*padded_by_tiles()).splitlines() if "C.pad[" in line]
    loads = [line for line in chunks if line.startswith("dma(")]
    around = {re.sub(".*zeros around ", "", line) for line in loads}
    assert around >= {"y (1, 0), x (1, 0)", "y (0, 1), x (0, 1)"}
    assert all(" = A[" in line for line in loads)
    assert "select" not in "".join(chunks)


def test_every_chunk_of_a_lowered_schedule_names_its_rule():
    for line in by_default(*padded_by_tiles()).splitlines():
        assert re.match(r" *(for|buffer|free|dma\(|gemm\(|reset\(|alu\()", line), line


def test_a_padding_with_another_value_is_peeled_into_copies_and_constants():
    A = placeholder((1, 6, 6, 16), "int8", "A")
    lines = [line.strip() for line in by_default(A, pad2d(A, 1, value=-128, name="P")).splitlines() if "P.acc[" in line]
    assert [line.split(" = ")[1][:5] for line in lines if line.startswith("alu(")] == [
        "-128",
        "-128",
        "A.acc",
        "-128",
        "-128",
    ]


def test_steps_of_a_reduction_that_only_meet_padding_are_left_out(golden):
    A, k = placeholder((8, 16), "int8", "A"), reduce_axis(3, "k")
    C = compute(
        (8, 16), lambda i, c: sum(select((i + k >= 1) & (i + k < 9), A[i + k - 1, c], 0).astype("int32"), axis=k), "C"
    )
    golden(text(create_schedule(C), "chunks"))


def test_a_user_defined_rule_gets_the_whole_chunk_with_its_conditions():
    @emit_rule("whole")
    def whole(_):
        return []

    A = placeholder((8, 16), "int8", "A")
    B = compute((8, 16), lambda i, c: select(i >= 1, A[i - 1, c], 0), "B")
    s = create_schedule(B)
    s[B].emit_insn(s[B].axis[0], "whole")
    assert text(s, "chunks") == "whole(i in 0..8, c in 0..16): B[i, c] = select(i >= 1, A[i - 1, c], 0)\n"


def test_selects_on_data_stay():
    A, B = placeholder((8, 16), "int8", "A"), placeholder((8, 16), "int8", "B")
    C = compute((8, 16), lambda i, c: select(A[i, c] > 0, A[i, c], B[i, c]), "C")
    assert "select(A[i, c] > 0, A[i, c], B[i, c])" in text(create_schedule(C), "chunks")


def test_a_pooling_with_padding_prints_no_select():
    A = placeholder((1, 9, 9, 16), "int8", "A")
    pooled = max_pool2d(A, 3, stride=2, padding=1, name="B")
    assert "select" in level(run_pipeline(create_schedule(pooled), CONFIG), CONFIG, "loops", given=True)
    assert "select" not in by_default(A, pooled)
