"""``transform_layout``: physical layouts of tensors, with the numbers of RFC 0039."""

import numpy as np
import pytest
from documented import as_documented
from nests import check, text
from random_programs import random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, max, placeholder, reduce_axis, select, sum
from lathe.isa import Layout
from lathe.scheduler import AXIS_SEPARATOR, build, create_schedule
from lathe.scheduler.primitives.transform_layout import transform_layout

CONFIG = load_config("vta")


def plus_one(*shape: int, dtype: str = "int8"):
    A = placeholder(shape, dtype, "A")
    return A, compute(shape, lambda *i: A[i] + 1, "B")


def doubled():
    """The program of the RFC's last example."""
    A = placeholder((16, 64, 128), "int8", "A")
    return A, compute(A.shape, lambda i, j, k: 2 * A[i, j, k], "B")


def test_documentation_shows_before_and_after():
    A = placeholder(64, "int8", "A")
    B = compute(64, lambda i: A[i] + 1, "B")
    C = compute(64, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    with as_documented(transform_layout, s):
        io, ii = s.transform_layout(B, lambda i: [i // 16, i % 16])
    assert (io, ii) == s[B].axis
    check(s)


def test_a_tensor_is_row_major_unless_it_is_transformed():
    A, B = plus_one(64, 128)
    s = create_schedule(B)
    assert s.layout(A).physical_index(10, 15) == (1295,)
    s.transform_layout(A, lambda i, j: [j, i])
    assert s.layout(A).index(10, 15) == (15, 10)
    assert s.layout(A).physical_index(10, 15) == (970,)
    assert s.layout(B).physical_index(10, 15) == (1295,)


def test_channels_in_blocks_of_four():
    A, B = plus_one(16, 64, 64, 128)
    s = create_schedule(B)
    assert s.transform_layout(A, lambda n, h, w, c: [n, c // 4, h, w, c % 4]) == ()
    layout = s.layout(A)
    assert layout.shape == (16, 32, 64, 64, 4)
    assert layout.physical_shape == (16 * 32 * 64 * 64 * 4,)
    assert layout.physical_index(11, 37, 23, 101) == (6_186_333,)


def test_a_separator_makes_two_dimensions():
    A, B = plus_one(16, 64, 64, 128)
    s = create_schedule(B)
    s.transform_layout(A, lambda n, h, w, c: [n, c // 4, h, AXIS_SEPARATOR, w, c % 4])
    layout = s.layout(A)
    assert layout.physical_shape == (16 * 32 * 64, 64 * 4)
    assert layout.physical_index(11, 37, 23, 101) == (24165, 93)


def test_flattening_twice_is_flattening_once():
    A, B = plus_one(4, 6, 8)
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j, k: [k // 4, i, AXIS_SEPARATOR, j, k % 4])
    layout = s.layout(A)
    flat = layout.flattened()
    assert (flat.shape, flat.physical_shape) == ((8, 24), (8, 24))
    assert flat.flattened() is flat
    for index in np.ndindex(4, 6, 8):
        assert flat.index(*index) == flat.physical_index(*index) == layout.physical_index(*index)
    row_major = s.layout(B).flattened()
    assert row_major.shape == (192,)
    assert row_major.flattened() is row_major


def test_an_input_has_no_loops_and_a_computed_tensor_gets_new_ones():
    A, B = doubled()
    s = create_schedule(B)
    assert s.transform_layout(A, lambda i, j, k: [i * 64 + j, k // 4, k % 4]) == ()
    assert s.layout(A).shape == (1024, 32, 4)
    outer, merged, inner = s[B].transform_layout(lambda i, j, k: [i // 4, 128 * j + k, i % 4])
    assert s.layout(B).shape == s[B].op.shape == (4, 8192, 4)
    assert s[B].leaf_axis == (outer, merged, inner)
    s[B].reorder(outer, inner, merged)
    assert s[B].leaf_axis == (outer, inner, merged)
    check(s)


def test_new_loops_can_be_reordered(golden_and_right):
    A = placeholder((8, 4, 6), "int8", "A")
    B = compute(A.shape, lambda i, j, k: 2 * A[i, j, k], "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j, k: [i * 4 + j, k // 2, k % 2])
    outer, merged, inner = s[B].transform_layout(lambda i, j, k: [i // 4, 6 * j + k, i % 4])
    s[B].reorder(outer, inner, merged)
    golden_and_right(s)


def test_a_function_may_take_any_number_of_indices():
    for shape in ((8,), (3, 8), (2, 3, 8)):
        A, B = plus_one(*shape)
        s = create_schedule(B)
        loops = s.transform_layout(B, lambda *i: [*i[:-1], i[-1] // 4, i[-1] % 4])
        assert [loop.name for loop in loops] == [f"i{n}" for n in range(len(shape) - 1)] + [
            f"i{len(shape) - 1}o",
            f"i{len(shape) - 1}i",
        ]
        s.transform_layout(A, lambda first, *rest: [*rest, first])
        check(s)


def test_a_second_map_starts_from_the_axes_of_the_first():
    A, B = plus_one(12, 8)
    s = create_schedule(B)
    for tensor in (A, B):
        s.transform_layout(tensor, lambda i, j: [j // 4, i, j % 4])
        s.transform_layout(tensor, lambda jo, i, ji: [i // 3, jo, i % 3, ji])
        layout = s.layout(tensor)
        assert layout.shape == (4, 2, 3, 4)
        assert layout.index(7, 5) == (2, 1, 1, 1)
    check(s)


def test_a_map_and_its_inverse_lead_back():
    A, B = plus_one(12, 8)
    s = create_schedule(B)
    for tensor in (A, B):
        s.transform_layout(tensor, lambda i, j: [j, i // 4, i % 4])
        s.transform_layout(tensor, lambda j, io, ii: [io * 4 + ii, j])
        assert s.layout(tensor).shape == (12, 8)
        assert all(s.layout(tensor).index(*index) == index for index in np.ndindex(12, 8))
    check(s)


def test_the_program_names_tensors_as_before():
    A, B = plus_one(64)
    C = compute(64, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    s.transform_layout(B, lambda i: [i // 16, i % 16])
    s.transform_layout(A, lambda i: [i % 16, i // 16])
    assert s[B] is s[B.computation] is s[s[B].tensor]
    copy = s.cache_read(A, "acc")
    assert copy.shape == (16, 4)
    again = s.cache_read(B, "acc")
    assert again.shape == (4, 16)
    s.cache_write(B, "acc")
    check(s)


def test_a_cached_tensor_has_a_layout_of_its_own(golden_and_right):
    A, B = plus_one(8, 32)
    s = create_schedule(B)
    copy, made = s.cache_read(A, "acc"), s.cache_write(B, "acc")
    s.transform_layout(copy, lambda i, j: [j // 16, i, j % 16])
    jo, i, ji = s.transform_layout(made, lambda i, j: [j // 16, i, j % 16])
    s[copy].compute_at(s[made], jo)
    golden_and_right(s)


def test_a_stage_stays_where_it_is_computed():
    A, B = plus_one(8, 32)
    C = compute(B.shape, lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    s[B].set_scope("acc")
    s[B].compute_at(s[C], "i")
    s.transform_layout(B, lambda i, j: [j // 16, i, j % 16])
    assert "for i in 0..8:\n  buffer B in acc: [0 + 2, i + 1, 0 + 16]" in text(s)
    check(s)


def test_reductions_conditions_and_windows_follow():
    A = placeholder((8, 12), "int8", "A")
    padded = compute((10, 12), lambda y, c: select((y >= 1) & (y < 9), A[y - 1, c], 0), "padded")
    k = reduce_axis(3, "k")
    total = compute((8, 12), lambda y, c: sum(padded[y + k, c].astype("int32"), axis=k), "total")
    out = compute((8, 12), lambda y, c: max(total[y, c], 0), "out")
    s = create_schedule(out)
    s.transform_layout(A, lambda y, c: [c // 4, y, c % 4])
    s.transform_layout(padded, lambda y, c: [c // 4, y // 5, c % 4, y % 5])
    s.transform_layout(total, lambda y, c: [y * 12 + c])
    s.transform_layout(out, lambda y, c: [c, y])
    check(s)
    assert run(s, CONFIG, random_inputs([out], 1))


def bytes_of(program, name):
    layout = program.segment(name).layout
    assert isinstance(layout, Layout)
    return layout


def test_bytes_in_memory_are_row_major_in_the_new_axes():
    """With as many indices of the last axis as a vector has lanes, the machine's blocks change nothing."""
    A, B = plus_one(2, 6, 5, 64)
    s = create_schedule(B)
    for tensor in (A, B):
        s.transform_layout(tensor, lambda n, h, w, c: [n, c // 16, h, w, c % 16])
    program = run(s, CONFIG, random_inputs([B], 0))
    array = np.arange(A.shape[0] * A.shape[1] * A.shape[2] * A.shape[3]).astype(np.int8).reshape(A.shape)
    wanted = array.reshape(2, 6, 5, 4, 16).transpose(0, 3, 1, 2, 4)
    for name in ("A", "B"):
        layout = bytes_of(program, name)
        assert layout.pack(array).reshape(-1).tolist() == wanted.reshape(-1).tolist()
        assert layout.unpack(layout.pack(array)).tolist() == array.tolist()
        assert Layout.from_dict(layout.to_dict()) == layout


@pytest.mark.parametrize("config", ["vta", "tiny"])
def test_the_layouts_of_the_rfc_run_on_machines(config):
    A = placeholder((8, 4, 32), "int8", "A")
    B = compute(A.shape, lambda i, j, k: 2 * A[i, j, k], "B")
    for reordered in (False, True):
        s = create_schedule(B)
        s.transform_layout(A, lambda i, j, k: [i * 4 + j, k // 4, k % 4])
        outer, merged, inner = s[B].transform_layout(lambda i, j, k: [i // 4, 32 * j + k, i % 4])
        if reordered:
            s[B].reorder(outer, inner, merged)
        run(s, load_config(config), random_inputs([B], 0))


@pytest.mark.parametrize("config", ["vta", "tiny"])
def test_a_matrix_product_in_other_layouts_runs_on_machines(config):
    X, W = placeholder((12, 32), "int8", "X"), placeholder((24, 32), "int8", "W")
    k = reduce_axis(32, "k")
    M = compute((12, 24), lambda i, j: sum(X[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "M")
    D = compute(M.shape, lambda i, j: (M[i, j] >> 6).astype("int8"), "D")
    s = create_schedule(D)
    s.transform_layout(X, lambda i, k: [k // 8, i, k % 8])
    s.transform_layout(W, lambda j, k: [j // 4, k, j % 4])
    s.transform_layout(M, lambda i, j: [j // 8, i, j % 8])
    s.transform_layout(D, lambda i, j: [j, i])
    check(s)
    run(s, load_config(config), random_inputs([D], 0))


def test_reordered_loops_over_joined_axes_are_as_good_as_any():
    """The RFC's last example: loops of the merged axis stay at its position, so vectors are filled."""
    A, B = doubled()
    lengths = []
    for reordered in (False, True):
        s = create_schedule(B)
        s.transform_layout(A, lambda i, j, k: [i * 64 + j, k // 4, k % 4])
        outer, merged, inner = s[B].transform_layout(lambda i, j, k: [i // 4, 128 * j + k, i % 4])
        if reordered:
            s[B].reorder(outer, inner, merged)
        lengths.append(len(run(s, CONFIG, random_inputs([B], 0)).instructions))
    assert all(length < 400 for length in lengths)


def test_constants_are_packed_too():
    A, B = plus_one(16, 32)
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [j // 16, i, j % 16])
    values = random_inputs([B], 0)
    program = build(s, [A, B], CONFIG, constants=values)
    (segment,) = (each for each in program.segments if each.role == "constant")
    wanted = values["A"].reshape(16, 2, 16).transpose(1, 0, 2)
    assert program.images[segment.name].view(np.int8).tolist() == wanted.reshape(-1).tolist()


@pytest.mark.parametrize("factor", [8, 5, 64])
def test_a_part_of_a_joined_axis_needs_a_part_of_what_it_reads(factor):
    """B in column-major order, ``factor`` elements at a time: only these elements of A are read, not all of A."""
    A = placeholder((32, 16), "int8", "A")
    B = compute(A.shape, lambda i, j: A[i, j] * 2, "B")
    s = create_schedule(B)
    s.transform_layout(B, lambda i, j: [j * 32 + i])
    made = s.cache_write(B, "acc")
    copy = s.cache_read(A, "acc", [made])
    outer, _ = s[B].split(s[B].leaf_axis[0], factor=factor)
    for tensor in (made, copy):
        s[tensor].compute_at(s[B], outer)
    box = next(line for line in text(s).splitlines() if "buffer A.acc" in line)
    if factor == 8:
        assert box == ("  buffer A.acc in acc: [8*j_io - 32*((8*j_io) // 32) + 8, ((8*j_io) // 32) + 1]")
    check(s)


def test_loops_that_commands_have_changed_stay_where_their_axis_does(golden_and_right):
    """B is computed in split rows of C; the columns of C are laid out in blocks afterwards."""
    A, B = plus_one(32, 32)
    C = compute(B.shape, lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    io, ii = s[C].split("i", factor=8)
    s[B].set_scope("acc")
    s[B].compute_at(s[C], io)
    s[C].emit_insn(ii, "dma")
    assert [loop.name for loop in s.transform_layout(C, lambda i, j: [j // 16, i, j % 16])] == ["io", "ii", "jo", "ji"]
    assert s[C].leaf_axis[:2] == (io, ii)
    golden_and_right(s)


def test_other_orders_of_axes_leave_all_loops_as_they_are():
    A, B = plus_one(6, 10, 16)
    s = create_schedule(B)
    a, b, c = s[B].axis
    fused = s[B].fuse(b, c)
    outer, inner = s[B].split(fused, factor=12)
    s[B].reorder(outer, a, inner)
    before = [loop.name for loop in s[B].leaf_axis]
    s.transform_layout(B, lambda i, j, k: [k, i, j])
    assert [loop.name for loop in s[B].leaf_axis] == before
    assert s.layout(B).index(5, 9, 15) == (15, 5, 9)
    check(s)


def test_a_stage_that_hosts_others_at_a_kept_axis_keeps_them():
    A, B = plus_one(8, 12)
    C = compute(B.shape, lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    s[B].set_scope("acc")
    s[B].compute_at(s[C], "i")
    s.transform_layout(C, lambda i, j: [j // 4, i, j % 4])
    assert text(s).startswith("for i in 0..8:\n  buffer B in acc: [i + 1, 0 + 12]\n")
    check(s)


def test_a_layout_after_other_commands_runs_on_the_machine():
    A, B = plus_one(24, 40)
    for config in (CONFIG, load_config("tiny")):
        s = create_schedule(B)
        s[B].split("i0", factor=5)
        s.transform_layout(B, lambda i, j: [j // 8, i, j % 8])
        s.transform_layout(A, lambda i, j: [j, i])
        run(s, config, random_inputs([B], 0))


REVERSED = {
    "rows": lambda i, j: [7 - i, j],
    "columns": lambda i, j: [i, 31 - j],
    "both, and turned": lambda i, j: [31 - j, 7 - i],
    "digits": lambda i, j: [(7 - i) // 4, j, (7 - i) % 4],
    "joined": lambda i, j: [(7 - i) * 32 + j],
    "one digit beside another axis": lambda i, j: [(31 - j) // 16 * 8 + i, (31 - j) % 16],
    "widened": lambda i, j: [(9 - i) // 4, j, (9 - i) % 4],
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("config", ["vta", "tiny"])
@pytest.mark.parametrize("form", REVERSED)
def test_axes_may_be_counted_from_their_ends(form, config):
    A = placeholder((8, 32), "int8", "A")
    M = compute(A.shape, lambda i, j: A[i, j] * 3, "M")
    B = compute(A.shape, lambda i, j: M[i, j] + 1, "B")
    for changed in ((A,), (M,), (B,), (A, M, B)):
        s = create_schedule(B)
        for tensor in changed:
            s.transform_layout(tensor, REVERSED[form], pad_value=0)
        values = np.arange(256).astype(np.int8).reshape(A.shape)
        for tensor in changed:
            layout = s.layout(tensor)
            packed = layout.pack(values)
            assert all(packed[layout.index(*index)] == values[index] for index in np.ndindex(*A.shape))
            assert layout.unpack(packed).tolist() == values.tolist()
        check(s)
        program = run(s, load_config(config), random_inputs([B], 0))
        for segment in program.segments:
            if segment.layout is not None:
                assert Layout.from_dict(segment.layout.to_dict()) == segment.layout


@pytest.mark.parametrize("reordered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_large_tensors_in_other_orders_fit_the_small_machine(reordered):
    """Merged axes, split and fused: whatever the loops cover has to fit 256 accumulators."""
    A = placeholder((16, 16, 64), "int8", "A")
    B = compute(A.shape, lambda i, j, k: 2 * A[i, j, k], "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j, k: [i * 16 + j, k // 4, k % 4])
    outer, merged, inner = s[B].transform_layout(lambda i, j, k: [i // 4, 64 * j + k, i % 4])
    if reordered:
        half, rest = s[B].split(merged, factor=512)
        s[B].reorder(outer, half, inner, rest)
        s[B].fuse(half, inner)
    run(s, load_config("tiny"), random_inputs([B], 0))
