"""``explain``: every class of chunks, with count, pads, and the rule that took it or the constraint that failed."""

import builtins
import doctest
import json
from importlib import import_module

import pytest
from convolutions import padded_convolution
from messages import refusal

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

VTA, TINY = load_config("vta"), load_config("tiny")


def test_the_example_of_the_documentation():
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
inp, 2048 elements:
  C.pad: 2 × 144 elements (1×9×16×16 values)
wgt, 1024 elements:
  W.wgt: 9 elements (16×3×3×16 values)
acc, 2048 elements:
  C.acc: 2 × 98 elements (1×7×14×16 values)
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
    assert refusal(BuildError, s.explain, "tiny") == (
        "machine of explain must be a HardwareConfig, not 'tiny'. Make one with load_config."
    )


def test_a_program_without_schedule_is_completed_as_build_does_it():
    A, W = placeholder((4, 20), "int8", "A"), placeholder((9, 20), "int8", "W")
    D = requantise(matmul(A, W, transpose_b=True, name="C"), 5, name="D")
    found = explain(D, TINY)
    assert found.maps
    assert {each.stage for each in found.classes} == {"W.inp", "A.wgt", "C", "D.acc", "D"}


def test_the_schedule_is_left_as_it_was():
    s, _ = padded_convolution(7)
    stages, states = list(s.stages), [stage.state for stage in s.stages]
    s.explain(TINY)
    assert (list(s.stages), [stage.state for stage in s.stages]) == (stages, states)


# Schedules that do not map.


def product(columns: int) -> tuple[Schedule, list[Tensor]]:
    """A product whose columns are taken so many at a time."""
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


def test_every_class_is_asked_beyond_the_first_that_fails():
    s, tensors = product(10)
    found = s.explain()
    assert not found.maps
    lanes = "vector lanes along dimension 1 of M.acc must be written in whole blocks of 16, but the chunk writes "
    assert [(each.role, each.loops[1], each.count, each.asked, each.constraint) for each in found.of("M.acc")] == [
        ("init", ("ji", 10), 3, "gemm", lanes + "0..9 of live cells 0..31"),
        ("update", ("ji", 10), 3, "gemm", lanes + "0..9 of live cells 0..31"),
        ("init", ("ji", 2), 1, "gemm", lanes + "30..31 of live cells 0..31"),
        ("update", ("ji", 2), 1, "gemm", lanes + "30..31 of live cells 0..31"),
    ]
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
    assert lines[-4] == (
        "  1 × init(i in 0..4, ji in 0..2): REFUSED by 'gemm' at jo=3: vector lanes along dimension 1 of M.acc must be "
        "written in whole blocks of 16, but the chunk writes 30..31 of live cells 0..31"
    )
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
    assert beyond.constraint == (
        "operands must end within their scratchpads, which are too small: wgt of micro-op 0 must be from 0 to 1023, "
        "not 1024. Its field has 10 bits on machine 'vta'."
    )


def test_a_program_whose_smallest_tile_does_not_fit():
    inputs = [placeholder((9, 4), "int32", name) for name in "ABCDEF"]
    a, b, c, d, e, f = inputs
    R = compute((9, 4), lambda i, j: a[i, j] + b[i, j] + c[i, j] + d[i, j] + e[i, j] + f[i, j], "R")
    S = compute((9, 4), lambda i, j: R[8 - i, j] * 2, "S")
    found = explain(S, TINY.with_(acc_buffer_bytes=64))
    (stated,) = found.refusals
    assert (stated.stage, stated.message) == (
        "R",
        "tile of R on machine 'tiny' must fit its scratchpads, but acc holds 4 elements and the smallest tile takes 7, "
        "3 too many. Use a machine with larger buffers, or split the computation.",
    )
    assert [each.constraint for each in found.of("R")] == ["no tile fits the scratchpads, for the reason above"]
    assert all(each.maps for each in found.of("S")), "the others are explained all the same"


def test_a_program_that_is_refused_as_a_whole():
    A = placeholder(64, "int8", "A")
    B = compute(64, lambda i: A[i] + 1, "B")
    s = create_schedule(B)
    s[B].vectorize("i", 16)
    found = s.explain(TINY)
    (stated,) = found.refusals
    assert (stated.error, stated.message) == ("BuildError", refusal(BuildError, build, s, [A, B], TINY))
    assert [(each.count, each.loops, each.constraint) for each in found.of("B")] == [
        (1, (("io", 4), ("ii", 16)), "no rule can be asked, for the reason above")
    ]


def test_a_reuse_buffer_of_a_form_that_the_machine_has_not():
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
    assert [each.constraint for each in found.of("A.reuse")][:1] == [
        "form of reuse buffer A.reuse must be 'ring' for the machine in inp, not 'shift': only the ALU moves elements, "
        "within acc. Call reuse_at with form='ring'."
    ]
    assert {each.constraint for each in found.of("B.acc") if each.role == "update"} == {
        "operand A.reuse must have a place in inp, which is refused above"
    }


def test_stages_that_compute_several_tensors_are_named():
    A = placeholder(16, "int8", "A")
    low, high = compute(16, lambda i: (A[i] + 1, A[i] - 1), "pair")
    both = compute(16, lambda i: low[i] + high[i], "both")
    s = create_schedule(both)
    s[low].set_scope("acc")
    assert [each.constraint for each in s.explain().of("pair")] == [
        "stage pair must compute one tensor to be scheduled by hand, not 2. Give each output a computation of its own, "
        "or leave scope, place and pragma of the stage open."
    ]


def test_pads_of_another_value_are_peeled_or_refused():
    A = placeholder((6, 16), "int8", "A")
    B = compute((9, 16), lambda y, x: select((y >= 1) & (y < 7), A[y - 1, x], -7), "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].emit_insn("y", "dma")
    (own,) = s.explain().of("B.acc")
    assert own.pads == (Pad("y", 1, 2, -7),)
    assert own.maps


def test_parts_of_a_chunk_are_counted_by_rule():
    A = placeholder((6, 16), "int8", "A")
    B = compute((9, 16), lambda y, x: select((y >= 1) & (y < 7), A[y - 1, x], 0) + 1, "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s.cache_read(A, "acc")
    (own,) = explain(s).of(s[made].name)
    assert own.taken == (("alu", 3),)
    assert str(own).startswith("1 × map(y in 0..9, x in 0..16): 3 × alu, ")


def test_a_rule_of_the_users_own_says_its_own_constraint():
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


def test_constraints_quote_lanes_with_the_loops_along_them():
    A = placeholder((16, 32), "int32", "A")
    B = compute((16, 8), lambda i, j: A[i, j] + A[i, j + 8], "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    copy = s.cache_read(A, "acc", [made])
    s[copy].vectorize("i1", 16)
    found = s.explain()
    assert [each.constraint for each in found.refused] == [
        "columns of B.acc and A.acc must be the same lanes, not 0..7 along j and 8..15 along j"
    ]
    assert [each.message for each in found.refusals] == [
        "Lanes of A.acc are those that vectorize says; without it, build chooses what fits."
    ]


def test_constraints_quote_the_part_of_a_reduction():
    A, W = placeholder((4, 40), "int8", "A"), placeholder((16, 40), "int8", "W")
    M = matmul(A, W, transpose_b=True, name="M")
    s = create_schedule(M)
    made = s.cache_write(M, "acc")
    s.cache_read(A, "inp")
    s.cache_read(W, "wgt")
    ko, ki = s[made].split("k", factor=10)
    s[made].reorder(ko, *s[made].axis, ki)
    s[made].emit_insn("i", "gemm")
    assert [(each.first, each.constraint) for each in s.explain().refused] == [
        (
            (("ko", 0),),
            "reduction must cover whole blocks of 16 lanes, or end where the tensors do with zeros behind in one of "
            "them, not 0..9 of 40 of A.inp and 0..9 of 40 of W.wgt",
        )
    ]


def test_extensions_are_told_with_what_they_are_good_for():
    data, weights = lt.placeholder((1, 8, 8, 16), "int8", name="data"), lt.placeholder((16, 3, 3, 16), "int8", name="w")
    parameters = lt.placeholder((16, 2), "int32", name="parameters")
    conv = lt.conv2d(data, weights, padding=1, pad_value=3, name="conv")
    output = lt.requantise(conv, parameters=parameters, name="output")
    *_, padding, begin, rescale = str(lt.explain(output, lt.load_config("lathe16"))).splitlines()
    assert padding.startswith("pad_value in conv.pad: a border of another value than 0 is padding of its LOADs")
    assert begin.startswith("gemm_begin in conv: sums begin with their first products")
    assert rescale.startswith(
        "rescale in parameters.par, output.acc: bias, factor, rounding and saturation are one step"
    )


def test_every_extension_has_a_purpose():
    assert PURPOSES.keys() == EXTENSIONS.keys()
