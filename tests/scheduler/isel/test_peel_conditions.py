"""Peeling of chunks with conditions, seen in the instructions of programs."""

import numpy as np
import pytest
from error_checks import raises

import lathe as lt
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.stream.micro_op_pool import MicroOpPool

VTA = lt.load_config("vta")


@pytest.fixture
def recorded():
    """A rule "recorded" that emits unconditional chunks and records their boxes."""
    boxes = []

    @lt.emit_rule("recorded")
    def rule(chunk):
        if chunk.reads and chunk.reads[0].guards:
            raise RuleMismatch("no conditions, please")
        low = tuple(index.constant for index in chunk.write.index)
        boxes.append((low, chunk.extents, str(chunk.expression)))
        return RULES["alu"](chunk)

    return boxes


def run(output, inputs, schedule=None):
    program = lt.build(schedule or output, [*inputs, output], VTA)
    assert lt.verify(program) == []
    generator = np.random.default_rng(0)
    arrays = {each.name: generator.integers(-99, 99, each.shape).astype(each.dtype) for each in inputs}
    found = lt.simulate(program, arrays).outputs[output.name]
    np.testing.assert_array_equal(found, lt.reference(output, arrays))
    return program


def test_each_box_goes_to_the_rule_of_the_pragma(recorded):
    A = lt.placeholder((6, 16), "int32", name="A")
    B = lt.compute((6, 16), lambda i, j: lt.select((i >= 1) & (i < 4), A[i, j] + 1, A[i, j] * 2), name="B")
    s = lt.create_schedule(B)
    s.cache_read(A, "acc", [B])
    result = s.cache_write(B, "acc")
    s[result].emit_insn(s[result].axis[0], "recorded")
    run(B, [A], s)
    assert [(low, extents) for low, extents, _ in recorded] == [((0, 0), (1, 16)), ((1, 0), (3, 16)), ((4, 0), (2, 16))]
    assert [text for _, _, text in recorded] == ["A.acc[i, j] * 2", "A.acc[i, j] + 1", "A.acc[i, j] * 2"]


def test_conditions_that_hold_everywhere_leave_one_box():
    A = lt.placeholder((6, 16), "int8", name="A")
    B = lt.compute((6, 16), lambda i, j: lt.select(i < 6, A[i, j], -5), name="B")
    stores = [each for each in run(B, [A]).instructions if isinstance(each, lt.Store)]
    assert len(stores) == 1


def test_iterations_of_a_maximum_that_only_meet_padding_are_skipped():
    A = lt.placeholder((4, 16), "int32", name="A")
    k = lt.reduce_axis(8, "k")
    least = -(1 << 31)
    B = lt.compute((16,), lambda j: lt.max(lt.select(k < 4, A[lt.min(k, 3), j], least), axis=k), name="B")
    run(B, [A])
    A = lt.placeholder((8, 16), "int32", name="A")
    B = lt.compute((16,), lambda j: lt.max(lt.select(k < 4, A[k, j], least), axis=k), name="B")
    program = run(B, [A])
    maxima = [each for each in program.instructions if isinstance(each, lt.Alu) and each.alu_opcode == lt.AluOp.MAX]
    assert sum(each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) for each in maxima) == 4


def test_conditions_on_data_are_if_converted():
    A, B = lt.placeholder((3, 16), "int32", name="A"), lt.placeholder((3, 16), "int32", name="B")
    C = lt.compute((3, 16), lambda i, j: lt.select(A[i, j] > B[i, j], A[i, j], 1), name="C")
    run(C, [A, B])


def test_conditions_on_uint32_data_are_refused():
    A, B = lt.placeholder((3, 16), "uint32", name="A"), lt.placeholder((3, 16), "int32", name="B")
    C = lt.compute((3, 16), lambda i, j: lt.select(A[i, j] > 3, B[i, j], 1), name="C")
    raises(lt.EmitError, run, C, [A, B], kind="machine", mentions=("operand B.acc", "A.acc[i, j] > 3", "ALU"))


def test_a_mismatch_rolls_back_the_micro_ops_of_a_rule():
    """Micro-ops that a rule allocates before a mismatch are never loaded: a later chunk must load them itself."""
    pool = MicroOpPool(VTA)
    one = np.arange(3)

    def refusing() -> None:
        with pool.rollback_on(RuleMismatch):
            pool.place(one, one, one)
            raise RuleMismatch("not this way")

    with pytest.raises(RuleMismatch):
        refusing()
    first, end, loads = pool.place(one, one, one)
    assert (first, end, len(loads)) == (0, 3, 1)
    assert pool.place(one, one, one) == (0, 3, [])
