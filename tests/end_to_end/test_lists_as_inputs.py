"""Lists of integers in range are accepted wherever input arrays are."""

import numpy as np
import pytest

import lathe as lt

CONFIG = lt.load_config("tiny")
A = lt.placeholder((2, 4), "int8", name="A")
B = lt.placeholder((4,), "int32", name="B")
C = lt.compute(A.shape, lambda i, j: A[i, j].astype("int32") + B[j], name="C")
D = lt.compute(A.shape, lambda i, j: C[i, j].astype("int8"), name="D")
LISTS = {"A": [[1, -128, 127, 0], (4, 5, 6, np.int64(7))], "B": [1, 2, -3, 2**31 - 1]}
ARRAYS = {"A": np.array(LISTS["A"], np.int8), "B": np.array(LISTS["B"], np.int32)}
EXPECTED = lt.reference(D, ARRAYS)


@pytest.fixture(scope="module")
def program():
    return lt.build(D, [A, B, D], CONFIG)


def test_of_simulation_reference_interpretation_and_constants(program):
    assert np.array_equal(lt.simulate(program, LISTS).outputs["D"], EXPECTED)
    assert np.array_equal(lt.simulate(program, LISTS, engine="pysim").outputs["D"], EXPECTED)
    assert np.array_equal(lt.reference(D, LISTS), EXPECTED)
    assert np.array_equal(lt.interpret(lt.create_schedule(D), LISTS)["D"], EXPECTED)
    constant = lt.build(D, [A, B, D], CONFIG, constants={"B": LISTS["B"]})
    assert np.array_equal(lt.simulate(constant, {"A": LISTS["A"]}).outputs["D"], EXPECTED)


MISTAKES = {
    "ragged": ([[1, 2], [3]], "be [[1, 2], [3]], which is ragged"),
    "out of range": ([[1, 2, 3, 200]] * 2, "be a list with 200, which int8 cannot represent"),
    "beyond 64 bits": ([10**30], f"be [{10**30}]"),
    "nothing": (None, "be None"),
    "of another shape": ([[1, 2, 3]], "(1, 3) and int8"),
    "of fractions": ([[0.5] * 4] * 2, "(2, 4) and float64"),
    "truth values": ([[True] * 4] * 2, "(2, 4) and bool"),
    "an array of another dtype": (np.zeros((2, 4), np.int64), "(2, 4) and int64"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_such_list_is_refused_by_everybody(program, mistake):
    value, told = MISTAKES[mistake]
    inputs = {"A": value, "B": LISTS["B"]}
    for run in (
        lambda: lt.simulate(program, inputs),
        lambda: lt.reference(D, inputs),
        lambda: lt.interpret(lt.create_schedule(D), inputs),
        lambda: lt.build(D, [A, B, D], CONFIG, constants={"A": value}),
    ):
        with pytest.raises(lt.LatheError) as caught:
            run()
    with pytest.raises(lt.InputError) as caught:
        lt.simulate(program, inputs)
    assert str(caught.value) == (
        f"Input 'A' of the program must have shape (2, 4) and dtype int8, not {told}. Convert the array first."
    )


def test_interpretation_takes_no_other_inputs_than_the_programs():
    with pytest.raises(lt.InputError) as caught:
        lt.interpret(lt.create_schedule(D), {"A": LISTS["A"]})
    assert str(caught.value) == (
        "inputs of the program must hold an array for 'B', which is missing. The program needs 'A', 'B'."
    )


def test_a_constant_of_build_is_refused_by_its_name():
    with pytest.raises(lt.BuildError) as caught:
        lt.build(D, [A, B, D], CONFIG, constants={"B": [1, [2]]})
    assert str(caught.value) == (
        "constant 'B' of build must be an array of shape (4,) and dtype int32, not [1, [2]], which is ragged."
    )


def test_pages_of_a_stream_are_lists_of_bytes():
    finish = [3] + [0] * 15
    stream = {"insns": [finish], "insn_addr": 0, "page_addrs": [4096], "pages": [[7] * 4096], "tokens": [0] * 4}
    result = lt.replay(CONFIG, stream)
    assert result.page_addrs.tolist() == [4096]
    with pytest.raises(lt.StreamError) as caught:
        lt.replay(CONFIG, stream | {"insns": [finish, [1]]})
    assert str(caught.value).startswith("insns of the stream must have shape (N, 16) and dtype uint8, not be [[3, 0, ")
    with pytest.raises(lt.StreamError) as caught:
        lt.replay(CONFIG, stream | {"tokens": [0, [1], 2, 3]})
    assert str(caught.value) == (
        "tokens of the stream must be integers of shape (4,), not be [0, [1], 2, 3], which is ragged. "
        "Convert the array."
    )
