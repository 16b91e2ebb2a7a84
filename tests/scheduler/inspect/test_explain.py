"""``explain``: every class of chunks with its count, pads, and the rule that matched or the constraint that failed."""

import builtins
import doctest
import json
from importlib import import_module

import pytest
from convolutions import padded_convolution
from error_checks import check_mentions, raises

import lathe as lt
from lathe.configs import load_config
from lathe.configs.extensions import EXTENSIONS, PURPOSES
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.frontend.operators import matmul, requantise
from lathe.isa import Instruction, Load, MemoryType
from lathe.scheduler import (
    BuildError,
    CapacityError,
    Chunk,
    EmitError,
    Pad,
    RuleMismatch,
    Schedule,
    build,
    create_schedule,
    emit_rule,
    explain,
)
from lathe.scheduler.inspect.explain import NO_TILE, NOT_ASKED

VTA, TINY = load_config("vta"), load_config("tiny")


def test_the_doctest_of_the_documentation():
    failures, tried = doctest.testmod(import_module("lathe.scheduler.api"))
    assert (failures, tried > 0) == (0, True)


def test_a_convolution_in_tiles_of_5_rows_has_three_classes_of_loads():
    s, tensors = padded_convolution(5)
    found = s.explain(VTA)
    assert [(each.count, each.loops[1], [str(pad) for pad in each.pads]) for each in found.of("C.pad")] == [
        (1, ("y", 7), ["y (1, 0)", "x (1, 1)"]),
        (1, ("y", 7), ["x (1, 1)"]),
        (1, ("y", 6), ["y (0, 1)", "x (1, 1)"]),
    ]
    assert [(each.role, each.loops[1], each.count, each.taken) for each in found.of("C.acc")] == [
        ("init", ("y", 5), 2, (("gemm", 1),)),
        ("update", ("y", 5), 2, (("gemm", 1),)),
        ("init", ("y", 4), 1, (("gemm", 1),)),
        ("update", ("y", 4), 1, (("gemm", 1),)),
    ]
    assert found.maps
    program = build(s, tensors, VTA)
    loads = [load for load in program.instructions if isinstance(load, Load) and load.memory_type == MemoryType.INP]
    assert len(loads) == builtins.sum(each.instructions for each in found.of("C.pad")) == 3
    assert [(load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1) for load in loads] == [
        (1, 0, 1, 1),
        (0, 0, 1, 1),
        (0, 1, 1, 1),
    ]


def test_text_of_a_schedule_that_maps():
    s, _ = padded_convolution(7)
    assert (
        str(s.explain(VTA))
        == """\
on vta: maps; 9 chunks of 6 classes
inp, 2048 vectors:
  C.pad: 2 × 144 vectors (1×9×16×16 values)
wgt, 1024 vectors:
  W.wgt: 9 vectors (16×3×3×16 values)
acc, 2048 vectors:
  C.acc: 2 × 98 vectors (1×7×14×16 values)
C.pad in inp:
  1 × map(n in 0..1, y in 0..9, x in 0..16, c in 0..16), pads of 0 around y (1, 0), x (1, 1): dma, 1 instruction
  1 × map(n in 0..1, y in 0..9, x in 0..16, c in 0..16), pads of 0 around y (0, 1), x (1, 1): dma, 1 instruction
W.wgt in wgt:
  1 × map(i0 in 0..16, i1 in 0..3, i2 in 0..3, i3 in 0..16): dma, 1 instruction
C.acc in acc:
  2 × init(n in 0..1, y in 0..7, x in 0..14, o in 0..16): gemm, 4 instructions
  2 × update(n in 0..1, y in 0..7, x in 0..14, o in 0..16, ry in 0..3, rx in 0..3, rc in 0..16): gemm, 24 instructions
C in dram:
  2 × map(yi in 0..7, x in 0..14, o in 0..16): dma, 30 instructions
"""
    )


def test_the_machine_is_vta_unless_given():
    s, _ = padded_convolution(7)
    assert s.explain() == s.explain(VTA) == explain(s)
    assert s.explain().machine == "vta"
    assert s.explain(TINY).machine == "tiny"


def test_no_machine():
    s, _ = padded_convolution(7)
    raises(BuildError, s.explain, "tiny", kind="argument", mentions=("machine", "explain", "'tiny'"))


def test_a_program_without_schedule_is_lowered_as_build_does_it():
    A, W = placeholder((4, 20), "int8", "A"), placeholder((9, 20), "int8", "W")
    D = requantise(matmul(A, W, transpose_b=True, name="C"), 5, name="D")
    found = explain(D, TINY)
    assert found.maps
    assert {each.stage for each in found.classes} == {"W.inp", "A.wgt", "C", "D.acc", "D"}


def test_the_schedule_does_not_change():
    s, _ = padded_convolution(7)
    stages, states = list(s.stages), [stage.state for stage in s.stages]
    s.explain(TINY)
    assert (list(s.stages), [stage.state for stage in s.stages]) == (stages, states)


# Schedules that do not map.


def product(columns: int) -> tuple[Schedule, list[Tensor]]:
    """A matmul with ``columns`` columns per tile."""
    A, W = placeholder((4, 64), "int8", "A"), placeholder((32, 64), "int8", "W")
    M = matmul(A, W, transpose_b=True, name="M")
    s = create_schedule(M)
    made = s.cache_write(M, "acc")
    s.cache_read(A, "inp")
    weights = s.cache_read(W, "wgt")
    outer, inner = s[made].split("j", factor=columns)
    s[made].reorder(outer, "i", inner)
    s[weights].compute_at(s[made], outer)
    s[made].emit_insn("i", "gemm")
    return s, [A, W, M]


def test_every_class_is_tried_after_the_first_that_fails():
    s, tensors = product(10)
    found = s.explain()
    assert not found.maps
    classes = found.of("M.acc")
    assert [(each.role, each.loops[1], each.count, each.asked) for each in classes] == [
        ("init", ("ji", 10), 3, "gemm"),
        ("update", ("ji", 10), 3, "gemm"),
        ("init", ("ji", 2), 1, "gemm"),
        ("update", ("ji", 2), 1, "gemm"),
    ]
    for each, lanes in zip(classes, ("0..9", "0..9", "30..31", "30..31"), strict=True):
        check_mentions(each.constraint, "M.acc", 16, lanes, "0..31")
    assert [each.first for each in found.refused if each.loops[1] == ("ji", 2)] == [(("jo", 3),)] * 2
    assert [each.maps for each in found.of("A.inp")] == [True]
    with pytest.raises(EmitError) as caught:
        build(s, tensors, VTA)
    first = next(each for each in found.classes if each.role == "init")
    assert (caught.value.rule, caught.value.constraint) == (first.asked, first.constraint)
    assert caught.value.chunk == "M.acc.init(i in 0..4, ji in 0..10) at jo=0"


def test_text_of_a_schedule_that_does_not_map():
    lines = str(product(10)[0].explain()).splitlines()
    assert lines[0] == "on vta: does not map (5 refused); 14 chunks of 9 classes"
    assert lines[-4].startswith("  1 × init(i in 0..4, ji in 0..2): REFUSED by 'gemm' at jo=3: ")
    check_mentions(lines[-4], "M.acc", 16, "30..31", "0..31")
    assert lines[-1] == "  1 × map(i in 0..4, j in 0..32): dma, 16 instructions"


def test_tiles_of_whole_blocks_map():
    assert product(16)[0].explain().maps


def test_buffers_that_exceed_a_scratchpad():
    A, W = placeholder((4, 64), "int8", "A"), placeholder((4112, 64), "int8", "W")
    M = matmul(A, W, transpose_b=True, name="M")
    s = create_schedule(M)
    made = s.cache_write(M, "acc")
    s.cache_read(A, "inp")
    s.cache_read(W, "wgt")
    jo, _ = s[M].split("j", factor=1024)
    s[M].reorder(jo, "i")
    s[made].compute_at(s[M], jo)
    found = s.explain()
    with pytest.raises(CapacityError) as caught:
        build(s, [A, W, M], VTA)
    (stated,) = found.refusals
    assert (stated.error, stated.message) == ("CapacityError", str(caught.value))
    assert (stated.scope, stated.excess) == ("wgt", 4)
    assert dict(found.depths)["wgt"] == 1024
    assert [(use.stage, use.elements, use.values) for use in found.buffers if use.scope == "wgt"] == [
        ("W.wgt", 1028, (4112, 64))
    ]
    assert {each.stage for each in found.classes} == {"A.inp", "W.wgt", "M.acc", "M"}
    (beyond,) = found.refused
    check_mentions(beyond.constraint, "wgt", 1023, 1024, 10, "'vta'")


def test_a_program_whose_smallest_tile_does_not_fit():
    inputs = [placeholder((9, 4), "int32", name) for name in "ABCDEF"]
    a, b, c, d, e, f = inputs
    R = compute((9, 4), lambda i, j: a[i, j] + b[i, j] + c[i, j] + d[i, j] + e[i, j] + f[i, j], "R")
    S = compute((9, 4), lambda i, j: R[8 - i, j] * 2, "S")
    found = explain(S, TINY.with_(acc_buffer_bytes=64))
    (stated,) = found.refusals
    assert stated.stage == "R"
    check_mentions(stated.message, "R", "'tiny'", "acc", 4, 7, 3)
    assert [each.constraint for each in found.of("R")] == [NO_TILE]
    assert all(each.maps for each in found.of("S")), "the other stages are explained, too"


def test_a_program_without_a_lowered_schedule():
    A = placeholder(64, "int8", "A")
    B = compute(64, lambda i: A[i] + 1, "B")
    s = create_schedule(B)
    s[B].vectorize("i", 16)
    found = s.explain(TINY)
    (stated,) = found.refusals
    assert (stated.error, stated.message) == ("BuildError", str(raises(BuildError, build, s, [A, B], TINY)))
    assert [(each.count, each.loops, each.constraint) for each in found.of("B")] == [
        (1, (("io", 4), ("ii", 16)), NOT_ASKED)
    ]


def test_a_form_of_reuse_buffer_that_the_machine_does_not_have():
    A, W = placeholder((10, 16), "int8", "A"), placeholder((16, 3, 16), "int8", "W")
    r, k = reduce_axis(3, "r"), reduce_axis(16, "k")
    B = compute((8, 16), lambda y, o: sum(A[y + r, k].astype("int32") * W[o, r, k].astype("int32"), axis=[r, k]), "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s.cache_read(W, "wgt")
    s[made].compute_at(s[B], "y")
    buffer = s.reuse_at(A, s[B], "y", form="shift")
    s[buffer].set_scope("inp")
    found = s.explain()
    check_mentions(found.of("A.reuse")[0].constraint, "A.reuse", "'ring' in inp", "'shift'", "acc", "form='ring'")
    (constraint,) = {each.constraint for each in found.of("B.acc") if each.role == "update"}
    check_mentions(constraint, "A.reuse", "inp")


def test_constraints_name_stages_that_compute_several_tensors():
    A = placeholder(16, "int8", "A")
    low, high = compute(16, lambda i: (A[i] + 1, A[i] - 1), "pair")
    both = compute(16, lambda i: low[i] + high[i], "both")
    s = create_schedule(both)
    s[low].set_scope("acc")
    (found,) = s.explain().of("pair")
    check_mentions(found.constraint, "stage pair", 2, "scheduled by the user", "compute location")


def test_pads_of_another_value():
    A = placeholder((6, 16), "int8", "A")
    B = compute((9, 16), lambda y, x: select((y >= 1) & (y < 7), A[y - 1, x], -7), "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].emit_insn("y", "dma")
    (own,) = s.explain().of("B.acc")
    assert own.pads == (Pad("y", 1, 2, -7),)
    assert own.maps


def test_slices_of_a_chunk_are_counted_by_rule():
    A = placeholder((6, 16), "int8", "A")
    B = compute((9, 16), lambda y, x: select((y >= 1) & (y < 7), A[y - 1, x], 0) + 1, "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s.cache_read(A, "acc")
    (own,) = explain(s).of(s[made].name)
    assert own.taken == (("alu", 3),)
    assert str(own).startswith("1 × map(y in 0..9, x in 0..16): 3 × alu, ")


def test_a_user_rule_gives_its_own_constraint():
    @emit_rule("picky")
    def picky(chunk: Chunk) -> list[Instruction] | RuleMismatch:
        if chunk.extents != (16,):
            return RuleMismatch(f"extent must be 16, not {chunk.extents[0]}")
        return []

    A = placeholder(40, "int8", "A")
    B = compute(40, lambda i: A[i] + 1, "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    _, inner = s[made].split("i", factor=16)
    s[made].emit_insn(inner, "picky")
    found = s.explain()
    assert [(each.loops, each.count, each.taken, each.constraint) for each in found.of("B.acc")] == [
        ((("ii", 16),), 2, (("picky", 1),), ""),
        ((("ii", 8),), 1, (), "extent must be 16, not 8"),
    ]


def test_plain_values_for_json():
    for s in (product(10)[0], product(16)[0], padded_convolution(5)[0]):
        found = s.explain()
        values = json.loads(json.dumps(found.to_dict()))
        assert values["maps"] == found.maps
        assert len(values["classes"]) == len(found.classes)
        assert [each["count"] for each in values["classes"]] == [each.count for each in found.classes]
        assert set(values["classes"][0]) >= {"stage", "role", "loops", "count", "pads", "asked", "taken", "constraint"}


def test_constraints_name_lanes_with_the_loops_along_them():
    A = placeholder((16, 32), "int32", "A")
    B = compute((16, 8), lambda i, j: A[i, j] + A[i, j + 8], "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    copy = s.cache_read(A, "acc", [made])
    s[copy].vectorize("i1", 16)
    found = s.explain()
    (refused,) = found.refused
    check_mentions(refused.constraint, "columns", "B.acc", "A.acc", "0..7 along j", "8..15 along j")
    (refused,) = found.refusals
    check_mentions(refused.message, "A.acc", "vectorize")


def test_constraints_name_the_range_of_a_reduction():
    A, W = placeholder((4, 40), "int8", "A"), placeholder((16, 40), "int8", "W")
    M = matmul(A, W, transpose_b=True, name="M")
    s = create_schedule(M)
    made = s.cache_write(M, "acc")
    s.cache_read(A, "inp")
    s.cache_read(W, "wgt")
    ko, ki = s[made].split("k", factor=10)
    s[made].reorder(ko, *s[made].axis, ki)
    s[made].emit_insn("i", "gemm")
    (refused,) = s.explain().refused
    assert refused.first == (("ko", 0),)
    check_mentions(refused.constraint, "reduction", 16, "0..9 of 40 of A.inp", "0..9 of 40 of W.wgt")


def test_extensions_are_reported_with_their_purpose():
    data, weights = lt.placeholder((1, 8, 8, 16), "int8", name="data"), lt.placeholder((16, 3, 3, 16), "int8", name="w")
    parameters = lt.placeholder((16, 2), "int32", name="parameters")
    conv = lt.conv2d(data, weights, padding=1, pad_value=3, name="conv")
    output = lt.requantise(conv, parameters=parameters, name="output")
    *_, padding, begin, rescale = str(lt.explain(output, lt.load_config("lathe16"))).splitlines()
    assert padding == f"pad_value in conv.pad: {PURPOSES['pad_value']}"
    assert begin == f"gemm_begin in conv: {PURPOSES['gemm_begin']}"
    assert rescale == f"rescale in parameters.par, output.acc: {PURPOSES['rescale']}"


def test_every_extension_has_a_purpose():
    assert PURPOSES.keys() == EXTENSIONS.keys()
