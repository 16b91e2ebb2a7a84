"""Rescaling and look-ups against Python's integers and fractions, and errors of invalid arguments."""

from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from error_checks import raises
from hypothesis import example, given, settings

import lathe as lt
from lathe.configs.errors import shown
from lathe.frontend import Binary, Const, interval
from lathe.frontend.expr.text import format_expr
from lathe.isa.arithmetic import shift_right_to_even

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = (-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1)


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def word(mantissa, shift):
    return wrapped(mantissa << 6 | shift)


def result(terms, words, zero_point, low, high):
    """The definition in fractions: Python's ``round`` takes halves to even, too."""
    total = sum(wrapped(value + bias) * (each >> 6) for (value, bias), each in zip(terms, words, strict=True))
    return min(max(round(Fraction(total, 2 ** (words[0] & 63))) + zero_point, low), high)


@given(INT64, st.integers(-70, 130))
@example(-(2**63), 63)
@example(-(2**63), 64)
@example(2**63 - 1, 63)
@example(2**62, 63)
@example(3 * 2**61, 62)
@settings(max_examples=500, deadline=None, derandomize=True)
def test_a_rounding_shift_is_exact_in_64_bits(value, amount):
    exact = round(Fraction(value, 2**amount)) if amount >= 0 else value << min(-amount, 64)
    exact = (exact + 2**63) % 2**64 - 2**63
    assert int(shift_right_to_even(np.int64(value), np.int64(amount))) == exact
    assert shift_right_to_even(np.array([value] * 2), np.array([amount] * 2)).tolist() == [exact] * 2


@pytest.mark.parametrize(
    ("dtype", "value", "amount", "expected"),
    [("int8", -128, 8, 0), ("int8", 127, 7, 1), ("int8", 5, 1, 2), ("uint8", 255, 8, 1), ("uint32", 2**32 - 1, 32, 1)],
)
def test_a_rounding_shift_of_the_language_has_the_dtype_of_its_operands(dtype, value, amount, expected):
    A = lt.placeholder((1,), dtype, name="A")
    B = lt.compute((1,), lambda i: lt.rounding_shift(A[i], amount), name="B")
    assert B.dtype == dtype
    assert lt.reference(B, {"A": np.array([value], dtype)}).tolist() == [expected]
    assert format_expr(B.computation.bodies[0]) == f"rounding_shift(A[i], {amount})"


@given(st.integers(-500, 500), st.integers(0, 600), st.integers(-3, 12))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_rounding_shift_keeps_within_its_interval(first, extent, amount):
    axis = lt.reduce_axis((first, first + extent + 1), "k")
    found = interval(lt.rounding_shift(axis, amount))
    values = [round(Fraction(value) / Fraction(2) ** amount) for value in range(first, first + extent + 1)]
    assert found == (min(values), max(values))


def test_shifts_by_nothing_are_left_out():
    i = lt.reduce_axis(4, "i")
    assert format_expr(lt.rounding_shift(i, 0)) == "i"
    assert isinstance(lt.rounding_shift(lt.const(1, "int32"), lt.const(1, "int32")), Binary)


def test_operands_of_a_rounding_shift_have_one_dtype():
    mentions = ("rounding_shift(1, 2)", "int64 and int32", '2.astype("int64")')
    raises(lt.TensorError, lt.rounding_shift, Const(1, "int64"), Const(2, "int32"), mentions=mentions)


@given(
    st.lists(
        st.tuples(INT32 | st.sampled_from(EDGES), INT32, st.integers(-(2**25), 2**25 - 1)), min_size=1, max_size=9
    ),
    st.integers(0, 63),
    st.sampled_from(["int8", "uint8"]),
    st.booleans(),
    st.integers(-128, 255),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_requantise_with_parameters(channels, shift, dtype, relu, point):
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    point = min(max(point, low), high)
    data, bias, mantissa = (np.array(each) for each in zip(*channels, strict=True))
    words = [word(int(each), shift) for each in mantissa]
    A = lt.placeholder((1, len(channels)), "int32", name="A")
    P = lt.placeholder((len(channels), 2), "int32", name="P")
    B = lt.requantise(A, parameters=P, zero_point=point, dtype=dtype, relu=relu, name="B")
    given_data = {"A": data[None].astype(np.int32), "P": np.stack([bias, words], 1).astype(np.int32)}
    expected = [
        result([(int(a), int(b))], [each], point, point if relu else low, high)
        for a, b, each in zip(data, bias, words, strict=True)
    ]
    assert lt.reference(B, given_data).tolist() == [expected]
    assert B.dtype == dtype


@given(st.lists(st.tuples(INT32, INT32, st.integers(-128, 127), INT32), min_size=1, max_size=5), st.randoms())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_rescaled_add(channels, random):
    count = len(channels)
    words = [[word(random.randrange(-(2**25), 2**25), random.randrange(64)) for _ in range(2)] for _ in range(count)]
    a, bias_a, b, bias_b = (np.array(each) for each in zip(*channels, strict=True))
    A, B = lt.placeholder((count,), "int32", name="A"), lt.placeholder((count,), "int8", name="B")
    P = lt.placeholder((count, 2, 2), "int32", name="P")
    C = lt.rescaled_add(A, B, parameters=P, zero_point=-3, relu=True, name="C")
    parameters = np.stack([np.stack([bias_a, bias_b], 1), np.array(words)], 2).astype(np.int32)
    found = lt.reference(C, {"A": a.astype(np.int32), "B": b.astype(np.int8), "P": parameters})
    expected = [
        result([(int(a[n]), int(bias_a[n])), (int(b[n]), int(bias_b[n]))], words[n], -3, -3, 127) for n in range(count)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_lookup(dtype, per_channel):
    rng = np.random.default_rng(7)
    data = rng.integers(0, 256, (5, 3)).astype(dtype)
    rows = rng.integers(0, 256, (256, 3) if per_channel else (256,)).astype(np.int8)
    A, T = lt.placeholder(data.shape, dtype, name="A"), lt.placeholder(rows.shape, "int8", name="T")
    found = lt.reference(lt.lookup(A, T, name="B"), {"A": data, "T": rows})
    for y, x in np.ndindex(5, 3):
        row = rows[int(data[y, x]) % 256]
        assert found[y, x] == (row[x] if per_channel else row)


@given(st.lists(st.floats(-(2.0**25) + 1, 2.0**25 - 1), min_size=1, max_size=4))
@example([1 - 2**-53])
@example([2.0**25 - 1])
@example([2.0**-63, 2.0**-64, 2.0**-65, 0.0, 5e-324])
@settings(max_examples=300, deadline=None, derandomize=True)
def test_factors_are_the_nearest_of_26_bits(scales):
    rows = lt.rescale_parameters(scales, bias=9)
    assert rows.dtype == np.int32
    assert rows.shape == (len(scales), 2)
    for scale, (bias, each) in zip(scales, rows.tolist(), strict=True):
        mantissa, shift = each >> 6, each & 63
        assert bias == 9
        assert abs(mantissa) < 2**25
        assert mantissa == round(Fraction(scale) * 2**shift)
        assert shift in (0, 63) or abs(mantissa) >= 2**24 or mantissa == 0


def test_two_factors_of_an_addition_share_a_shift():
    rows = lt.rescaled_add_parameters(([0.5, 3.0], 0.001), (0, [4, 5]))
    assert rows.shape == (2, 2, 2)
    assert rows[:, 1, 0].tolist() == [4, 5]
    for channel, scale in enumerate((0.5, 3.0)):
        shifts = rows[channel, :, 1] & 63
        assert shifts[0] == shifts[1]
        for n, factor in enumerate((scale, 0.001)):
            assert int(rows[channel, n, 1]) >> 6 == round(Fraction(factor) * 2 ** int(shifts[0]))


def test_one_scale_for_all_channels_is_repeated():
    assert lt.rescale_parameters(0.25, 1, channels=3).tolist() == [[1, (2**24 << 6 | 26)]] * 3
    assert lt.rescaled_add_parameters((1.0, 1.0), channels=4).shape == (4, 2, 2)


A4 = lt.placeholder((2, 4), "int32", name="A4")
B4 = lt.placeholder((2, 4), "int8", name="B4")
P4 = lt.placeholder((4, 2), "int32", name="P4")
T = lt.placeholder((256,), "int8", name="T")


# fmt: off
REFUSED = [
    (lambda: lt.rescale_parameters([1.0, 2.0**25]),
        ("scale of rescale_parameters", "channel 1", 33554432, "33554432.0", "26 bits")),
    (lambda: lt.rescale_parameters(float("nan")), ("scale of rescale_parameters", 33554432, "nan")),
    (lambda: lt.rescale_parameters("a half"), ("scale of rescale_parameters", "'a half'")),
    (lambda: lt.rescale_parameters(1.0, [0, 2**31]), ("bias of rescale_parameters", "channel 1", "int32", 2147483648)),
    (lambda: lt.rescale_parameters(1.0, 0.5), ("bias of rescale_parameters", "integer", 0.5)),
    (lambda: lt.rescale_parameters([1.0, 2.0], [1, 2, 3]), ("channels of rescale_parameters", "2 and 3")),
    (lambda: lt.rescale_parameters(1.0, channels=0), ("channels of rescale_parameters", "positive", 0)),
    (lambda: lt.rescaled_add_parameters(0.5), ("scales of rescaled_add_parameters", "pair", 0.5)),
    (lambda: lt.requantise(A4, name="R"), ("requantise 'R'", "parameters=", "neither")),
    (lambda: lt.requantise(A4, 3, parameters=P4, name="R"), ("requantise 'R'", "parameters=", "both")),
    (lambda: lt.requantise(A4, 3, relu=True, name="R"), ("relu of requantise 'R'", "parameters", "low=0")),
    (lambda: lt.requantise(A4, parameters=P4, low=0, name="R"), ("low of requantise 'R'", "shift", "relu=True")),
    (lambda: lt.requantise(A4, parameters=lt.placeholder((3, 2), "int32", name="P"), name="R"),
        ("parameters of requantise 'R'", "(4, 2)", "[bias, factor word]", "(3, 2)")),
    (lambda: lt.requantise(A4, parameters=lt.placeholder((4, 2), "int64", name="P"), name="R"),
        ("dtype of parameters of requantise 'R'", "int32", "int64")),
    (lambda: lt.requantise(A4, parameters=P4, dtype="int16", name="R"),
        ("dtype of requantise 'R'", "int8 or uint8", "'int16'")),
    (lambda: lt.requantise(A4, parameters=P4, zero_point=128, name="R"),
        ("zero_point of requantise 'R'", "-128 to 127", "int8", 128)),
    (lambda: lt.requantise(A4, parameters=P4, relu=1, name="R"), ("relu of requantise 'R'", "True or False", "not 1")),
    (lambda: lt.rescaled_add(A4, T, parameters=P4, name="R"),
        ("shapes of rescaled_add 'R'", "(2, 4) of a", "(256,) of b")),
    (lambda: lt.rescaled_add(A4, B4, parameters=P4, name="R"),
        ("parameters of rescaled_add 'R'", 3, "(channels, 2 operands, 2)", "(4, 2)")),
    (lambda: lt.lookup(A4, T, name="L"), ("dtype of data of lookup 'L'", "int8 or uint8", "int32")),
    (lambda: lt.lookup(B4, lt.placeholder((255,), "int8", name="S"), name="L"),
        ("table of lookup 'L'", "(256,)", "(256, 4)", "(255,)")),
]
# fmt: on


@pytest.mark.parametrize(("call", "mentions"), REFUSED)
def test_errors(call, mentions):
    raises(lt.TensorError, call, mentions=mentions)


NOT_NUMERIC = [
    [], [0.5, [1]], 1 + 2j, [1 + 2j, 1], np.array([1 + 2j]), True, [True, 0.5], "1.5", b"1", None, {0.5}, [[0.5]],
    np.datetime64("2020-01-01"), np.timedelta64(3), np.array([True]), np.ma.array([0.5, 1.0], mask=[False, True]),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("numbers", NOT_NUMERIC, ids=repr)
def test_scales_and_biases_are_numbers(numbers):
    """Values that NumPy would convert to numbers, or cannot convert at all, are refused alike."""
    for call, name in (
        (lambda: lt.rescale_parameters(numbers), "scale of rescale_parameters"),
        (lambda: lt.rescale_parameters(1, numbers), "bias of rescale_parameters"),
        (lambda: lt.rescaled_add_parameters((1, numbers)), "scale 1 of rescaled_add_parameters"),
        (lambda: lt.rescaled_add_parameters((1, 1), (numbers, 0)), "bias 0 of rescaled_add_parameters"),
    ):
        raises(lt.TensorError, call, mentions=(name, shown(numbers)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("call", "mentions"),
    [
        (lambda: lt.rescale_parameters(-(10**400)), ("scale of rescale_parameters", 33554432, "-inf")),
        (
            lambda: lt.rescale_parameters([1, np.longdouble("1e4000")]),
            ("scale of rescale_parameters", "channel 1", 33554432, "not inf"),
        ),
        (
            lambda: lt.rescale_parameters(1, [0, 2**64]),
            ("bias of rescale_parameters", "channel 1", "int32", 18446744073709551616),
        ),
        (lambda: lt.rescale_parameters(1, 1.0), ("bias of rescale_parameters", "integer", "not 1.0")),
        (lambda: lt.rescaled_add_parameters(b"12"), ("scales of rescaled_add_parameters", "pair", "b'12'")),
    ],
)
def test_numbers_beyond_every_type(call, mentions):
    raises(lt.TensorError, call, mentions=mentions)


@pytest.mark.parametrize("channels", [10**12, 10**30])
def test_more_channels_than_fit_in_memory(channels):
    for words, name, call in (
        (1, "rescale_parameters", lambda: lt.rescale_parameters(0.5, channels=channels)),
        (2, "rescaled_add_parameters", lambda: lt.rescaled_add_parameters((0.5, 0.5), channels=channels)),
    ):
        raises(lt.MemoryLimitError, call, mentions=(name, 64 * words * channels))


@pytest.mark.parametrize(
    "numbers",
    [
        Fraction(1, 4), Decimal("0.25"), np.float16(0.25), [np.array(0.25)], np.array([0.25], object),
        (np.longdouble(0.25),), np.array(0.25, np.float32),
    ],
    ids=repr,
)  # fmt: skip
def test_numbers_of_any_kind(numbers):
    assert lt.rescale_parameters(numbers).tolist() == lt.rescale_parameters(0.25).tolist()


@pytest.mark.parametrize("numbers", [3, [3], range(3, 4), np.uint8(3), np.array([3], object), [np.array(3)]], ids=repr)
def test_integers_of_any_kind(numbers):
    assert lt.rescale_parameters(1, numbers).tolist() == lt.rescale_parameters(1, 3).tolist()
