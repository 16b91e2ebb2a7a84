"""What is nearly a rescaling or a look-up: refusals say which form the machine takes, and what of it is not there."""

import pytest

import lathe as lt
from lathe.scheduler.layout.rescaling import rescaling_wanted

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


NEARLY = [
    (lambda i, j: clipped(shifted(i, j), low=-127),
        "the value must be clipped to -128..127, or from its zero point 0 on, not to -127..127"),
    (lambda i, j: clipped(shifted(i, j), low=0, high=100),
        "the value must be clipped to -128..127, or from its zero point 0 on, not to 0..100"),
    (lambda i, j: clipped(shifted(i, j) + 200), "the zero point must be from -128 to 127, not 200"),
    (lambda i, j: clipped(shifted(i, j) + wide(Z[j])), "the zero point must be one constant, not int64(Z.acc[j])"),
    (lambda i, j: clipped(lt.rounding_shift(wide(X[i, j] + 5) * 77, wide(P[j, 1] % 64))),
        "the product must be of rows [bias, word] of one tensor of parameters, as int64(X.acc[i, j] + 5) * 77 is not"),
    (lambda i, j: clipped(lt.rounding_shift(wide(X[i, j] + P[j, 0]) * 77, 9)),
        "the shift must be the low bits of a word of parameters, word % 64, not 9"),
    (lambda i, j: clipped((wide(X[i, j] + P[j, 0]) * wide(P[j, 1] >> 6)) >> 9),
        "the product must be shifted by rounding_shift, as int64(X.acc[i, j] + P.acc[j, 0]) * int64(P.acc[j, 1] >> 6) "
        ">> 9 is not"),
    (lambda i, j: shifted(i, j).astype("int8"), "the value must be clipped to two constants in the end"),
    (lambda i, j: lt.min(shifted(i, j), 127).astype("int16"),
        "what is clipped must be converted to int8 or uint8 in the end"),
    (lambda i, j: clipped(shifted(i, j)) + D[i, j],
        "the rescaling must be all that a stage computes, not a part of int8(min(max(rounding_shift(int64(X.acc[i, j] "
        "+ P.acc[j, 0]) * int64(P.acc[j, 1] >> 6), int64(P.acc[j, 1] % 64)), -128), 127)) + D.acc[i, j]"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "why"), NEARLY, ids=[why[:40] for _, why in NEARLY])
@pytest.mark.parametrize("config", [LATHE16, VTA], ids=lambda each: each.name)
def test_what_is_nearly_a_rescaling(function, why, config):
    instruction = "RESCALE" if config is LATHE16 else "RESCALE (extension 'rescale', which 'vta' is without)"
    with pytest.raises(lt.EmitError) as refused:
        built(config, function)
    assert refused.value.constraint == (
        f"dtype of a value in acc must have at most 32 bits, not int64; of int64, {instruction} takes {FORM}, where "
        f"{why}"
    )


def test_a_rescaling_of_a_part_of_the_elements():
    with pytest.raises(lt.EmitError) as refused:
        built(LATHE16, lambda i, j: clipped(shifted(i, j)), where=lambda i, j: j <= 3 * i)
    assert ", where the rescaling must be all that a stage computes, not a part of " in refused.value.constraint


def test_explain_says_the_same():
    B = lt.compute((4, 16), lambda i, j: clipped(shifted(i, j) + 200), name="B")
    (found,) = lt.explain(B, LATHE16).of("B.acc")
    assert found.constraint.endswith(f"RESCALE takes {FORM}, where the zero point must be from -128 to 127, not 200")


def test_a_rescaling_itself_wants_its_rule():
    B = lt.compute((4, 16), lambda i, j: clipped(shifted(i, j)), name="B")
    assert rescaling_wanted(B.computation.bodies[0], LATHE16) == (
        f"of int64, RESCALE takes {FORM}, where the rule must be 'rescale'"
    )


TAKEN = (
    " Look-ups are taken by rule 'rescale' where table[uint8(value), ..] is all that a stage computes, of 256 rows and "
    "values of 8 bits."
)
INDEX = "index of L.acc in stage B.acc must be linear in the loops, not index({}): no instruction has such addresses."


def looked_up(i, j):
    return L[D[i, j].astype("uint8").astype("index")]


@pytest.mark.parametrize(
    ("config", "function", "options", "message"),
    [
        (LATHE16, looked_up, {"where": lambda i, j: j <= 3 * i}, INDEX.format("uint8(D.acc[i, j])") + TAKEN),
        (LATHE16, lambda i, j: L[(D[i, j].astype("int32") + 128).astype("index")], {},
            INDEX.format("int32(D.acc[i, j]) + 128") + TAKEN),
        (VTA, lambda i, j: looked_up(i, j) + 1, {},
            INDEX.format("uint8(D.acc[i, j])") + " Tables are looked up with the extension 'lookup', which machine "
            "'vta' is without."),
        (VTA, lambda i, j: L[(D[i, j].astype("int32") + 128).astype("index")], {},
            INDEX.format("int32(D.acc[i, j]) + 128")),
    ],
)  # fmt: skip
def test_what_is_nearly_a_look_up(config, function, options, message):
    with pytest.raises(lt.EmitError) as refused:
        built(config, function, **options)
    assert str(refused.value) == message


def test_a_look_up_by_another_rule():
    B = lt.compute((4, 16), looked_up, name="B")
    s = lt.create_schedule(B)
    s[s.cache_write(B, "acc")].emit_insn("i", "alu")
    with pytest.raises(lt.EmitError) as refused:
        lt.build(s, [D, L, B], LATHE16)
    assert str(refused.value).endswith(TAKEN)
