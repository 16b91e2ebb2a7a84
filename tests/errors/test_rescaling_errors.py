"""Expressions that are almost a rescaling or a look-up: errors mention the supported form, and the difference."""

import pytest
from error_checks import check_mentions, raises

import lathe as lt
from lathe.scheduler.layout.rescaling import why_not_rescale

VTA, LATHE16 = lt.load_config("vta"), lt.load_config("lathe16")
X, P = lt.placeholder((4, 16), "int32", name="X"), lt.placeholder((16, 2), "int32", name="P")
Z, D = lt.placeholder((16,), "int8", name="Z"), lt.placeholder((4, 16), "int8", name="D")
L = lt.placeholder((256,), "int8", name="L")
FORM = "clamp(rounding_shift(int64(data + bias) * int64(word >> 6), int64(word % 64)) + zero_point)"


def wide(value):
    return value.astype("int64")


def shifted(i, j):
    return lt.rounding_shift(wide(X[i, j] + P[j, 0]) * wide(P[j, 1] >> 6), wide(P[j, 1] % 64))


def clipped(value, low=-128, high=127):
    return lt.min(lt.max(value, low), high).astype("int8")


def built(config, function, **options):
    B = lt.compute((4, 16), function, name="B", **options)
    inputs = list({read.tensor.name: read.tensor for read in B.computation.reads}.values())
    return lt.build(B, [*inputs, B], config)


RESCALED = "int8(min(max(rounding_shift(int64(X.acc[i, j] + P.acc[j, 0]) * int64(P.acc[j, 1] >> 6)"
NOT_RESCALED = [
    (lambda i, j: clipped(shifted(i, j), low=-127), ("-128..127", "-127..127")),
    (lambda i, j: clipped(shifted(i, j), low=0, high=100), ("-128..127", "0..100")),
    (lambda i, j: clipped(shifted(i, j) + 200), ("zero point", "-128 to 127", 200)),
    (lambda i, j: clipped(shifted(i, j) + wide(Z[j])), ("zero point", "int64(Z.acc[j])")),
    (lambda i, j: clipped(lt.rounding_shift(wide(X[i, j] + 5) * 77, wide(P[j, 1] % 64))),
        ("[bias, word]", "int64(X.acc[i, j] + 5) * 77")),
    (lambda i, j: clipped(lt.rounding_shift(wide(X[i, j] + P[j, 0]) * 77, 9)), ("shift", "word % 64", 9)),
    (lambda i, j: clipped((wide(X[i, j] + P[j, 0]) * wide(P[j, 1] >> 6)) >> 9),
        ("rounding_shift", "int64(X.acc[i, j] + P.acc[j, 0]) * int64(P.acc[j, 1] >> 6) >> 9")),
    (lambda i, j: shifted(i, j).astype("int8"), ("clipped", "two constants")),
    (lambda i, j: lt.min(shifted(i, j), 127).astype("int16"), ("clipped", "int8 or uint8")),
    (lambda i, j: clipped(shifted(i, j)) + D[i, j], ("stage", RESCALED, "D.acc[i, j]")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "mentions"), NOT_RESCALED, ids=[str(mentions[:2]) for _, mentions in NOT_RESCALED]
)
@pytest.mark.parametrize("config", [LATHE16, VTA], ids=lambda each: each.name)
def test_an_expression_that_is_almost_a_rescaling(function, mentions, config):
    refused = raises(lt.EmitError, built, config, function)
    check_mentions(refused.constraint, "acc", "32 bits", "int64", "RESCALE", FORM, *mentions)
    assert ("extension 'rescale'" in refused.constraint) == (config is VTA)


def test_a_rescaling_under_a_condition():
    refused = raises(lt.EmitError, built, LATHE16, lambda i, j: clipped(shifted(i, j)), where=lambda i, j: j <= 3 * i)
    check_mentions(refused.constraint, "RESCALE", FORM, RESCALED)


def test_explain_gives_the_same_reason():
    B = lt.compute((4, 16), lambda i, j: clipped(shifted(i, j) + 200), name="B")
    (found,) = lt.explain(B, LATHE16).of("B.acc")
    check_mentions(found.constraint, "RESCALE", FORM, "zero point", "-128 to 127", 200)


def test_a_rescaling_requires_its_rule():
    B = lt.compute((4, 16), lambda i, j: clipped(shifted(i, j)), name="B")
    check_mentions(why_not_rescale(B.computation.bodies[0], LATHE16), "int64", "RESCALE", FORM, "rule", "'rescale'")


TAKEN = ("'rescale'", "table[uint8(value), ..]", 256)


def looked_up(i, j):
    return L[D[i, j].astype("uint8").astype("index")]


def shifted_look_up(i, j):
    return L[(D[i, j].astype("int32") + 128).astype("index")]


@pytest.mark.parametrize(
    ("config", "function", "options", "mentions"),
    [
        (LATHE16, looked_up, {"where": lambda i, j: j <= 3 * i}, ("index(uint8(D.acc[i, j]))", *TAKEN)),
        (LATHE16, shifted_look_up, {}, ("index(int32(D.acc[i, j]) + 128)", *TAKEN)),
        (VTA, lambda i, j: looked_up(i, j) + 1, {}, ("index(uint8(D.acc[i, j]))", "extension 'lookup'", "'vta'")),
        (VTA, shifted_look_up, {}, ("index(int32(D.acc[i, j]) + 128)",)),
    ],
)
def test_an_expression_that_is_almost_a_look_up(config, function, options, mentions):
    refused = raises(lt.EmitError, built, config, function, **options)
    check_mentions(refused, "L.acc", "B.acc", "linear", *mentions)
    assert ("'lookup'" in str(refused)) == ("extension 'lookup'" in mentions)


def test_a_look_up_by_another_rule():
    B = lt.compute((4, 16), looked_up, name="B")
    s = lt.create_schedule(B)
    s[s.cache_write(B, "acc")].emit_insn("i", "alu")
    refused = raises(lt.EmitError, lt.build, s, [D, L, B], LATHE16)
    check_mentions(refused, *TAKEN)
