"""``compute_at`` and ``compute_root``: a stage is computed in a loop of its consumer, or at the root."""

from documented import as_documented
from nests import blur, check, text, two_stages

from lathe.frontend import compute, placeholder, reduce_axis, select, sum
from lathe.frontend.operators import conv2d
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.compute_at import compute_at


def test_documentation_shows_before_and_after():
    B, C, s = two_stages()
    io, _ = s[C].split("i", factor=16)
    with as_documented(compute_at, s):
        s[B].compute_at(s[C], io)


def test_compute_root_undoes_it():
    B, C, s = two_stages()
    io, _ = s[C].split("i", factor=16)
    before = text(s, "order", "loops")
    s[B].compute_at(s[C], io)
    assert text(s, "order", "loops") != before
    s[B].compute_root()
    assert text(s, "order", "loops") == before


def test_the_region_ends_where_the_consumers_tail_does(golden_and_right):
    B, C, s = two_stages()
    io, _ = s[C].split("i", factor=16)
    s[B].compute_at(s[C], io)
    golden_and_right(s)


def test_windows_overlap_by_the_halo(golden_and_right):
    B, C, s = blur(12, 8)
    yo, _ = s[C].split("y", factor=4)
    s[B].compute_at(s[C], yo)
    s[B].set_scope("acc")
    golden_and_right(s)


def test_at_the_innermost_loop_each_point_gets_its_own_window(golden_and_right):
    B, C, s = blur(6, 6)
    s[B].compute_at(s[C], "x")
    golden_and_right(s)


def test_strided_reads_leave_gaps_between_windows(golden_and_right):
    A = placeholder(40, "int32", "A")
    B = compute(40, lambda i: A[i] + 1, "B")
    C = compute(10, lambda i: B[4 * i] + B[4 * i + 1], "C")
    s = create_schedule(C)
    io, _ = s[C].split("i", factor=3)
    s[B].compute_at(s[C], io)
    golden_and_right(s)


def test_reads_backwards_and_divided(golden_and_right):
    A = placeholder(12, "int32", "A")
    B = compute(12, lambda i: A[i] + 1, "B")
    C = compute(24, lambda i: B[11 - i // 2], "C")
    s = create_schedule(C)
    io, _ = s[C].split("i", factor=5)
    s[B].compute_at(s[C], io)
    golden_and_right(s)


def test_padding_is_clipped_to_what_there_is(golden_and_right):
    """A window entirely inside the padding reads nothing of the producer."""
    A = placeholder(10, "int32", "A")
    B = compute(10, lambda i: A[i] + 1, "B")
    C = compute(16, lambda i: select((i >= 3) & (i < 13), B[i - 3], 0), "C")
    s = create_schedule(C)
    io, _ = s[C].split("i", factor=2)
    s[B].compute_at(s[C], io)
    s[B].set_scope("acc")
    golden_and_right(s)


def test_exactly_the_cells_that_are_read_leave_out_gaps():
    A = placeholder(40, "int32", "A")
    B = compute(40, lambda i: A[i] + 1, "B")
    C = compute(10, lambda i: B[4 * i] + B[4 * i + 1], "C")
    executed = {}
    for region in ("box", "exact"):
        s = create_schedule(C)
        io, _ = s[C].split("i", factor=3)
        s[B].compute_at(s[C], io, region)
        s[B].set_scope("acc")
        check(s)
        executed[region] = s.count().stages["B"].executed
    assert executed == {"box": 3 * 10 + 2, "exact": 2 * 10}


def test_what_is_missing_is_computed_once_in_any_loop():
    B, C, _ = blur(12, 8)
    for level in ("root", "yo", "yi", "x"):
        s = create_schedule(C)
        s[C].split("y", factor=4)
        s[B].compute_at(s[C], level, "missing")
        check(s)
        assert (s.count().stages["B"].executed, s.count().redundant) == (12 * 6, 0)


def test_only_the_new_row_of_a_window_is_computed():
    B, C, s = blur(5, 4)
    s[B].compute_at(s[C], "y", "missing")
    assert text(s, "chunks") == (
        "for y in 0..1:\n"
        "  for y' in 2..3:\n"
        "    for x in 0..2:\n"
        "      B[y + y', x] = A[y + y', x] + A[y + y', x + 1] + A[y + y', x + 2]\n"
        "  for y' in 0..2:\n"
        "    for x in 0..2:\n"
        "      B[y + y', x] = A[y + y', x] + A[y + y', x + 1] + A[y + y', x + 2]\n"
        "  for x in 0..2:\n"
        "    C[y, x] = B[y, x] + B[y + 1, x] + B[y + 2, x]\n"
        "for y in 1..3:\n"
        "  for y' in 2..3:\n"
        "    for x in 0..2:\n"
        "      B[y + y', x] = A[y + y', x] + A[y + y', x + 1] + A[y + y', x + 2]\n"
        "  for x in 0..2:\n"
        "    C[y, x] = B[y, x] + B[y + 1, x] + B[y + 2, x]\n"
    )
    check(s)


def test_two_readers_in_the_loop_share_one_region(golden_and_right):
    A = placeholder(30, "int32", "A")
    B = compute(30, lambda i: A[i] + 1, "B")
    C = compute(28, lambda i: B[i] + B[i + 1], "C")
    D = compute(28, lambda i: C[i] * B[i + 2], "D")
    s = create_schedule(D)
    io, _ = s[D].split("i", factor=8)
    s[C].compute_at(s[D], io)
    s[B].compute_at(s[D], io)
    s[B].set_scope("acc")
    golden_and_right(s)


def test_a_chain_of_regions_each_within_the_next(golden_and_right):
    A = placeholder(20, "int32", "A")
    B = compute(20, lambda i: A[i] + 1, "B")
    C = compute(19, lambda i: B[i] + B[i + 1], "C")
    D = compute(18, lambda i: C[i] + C[i + 1], "D")
    s = create_schedule(D)
    io, _ = s[D].split("i", factor=7)
    s[C].compute_at(s[D], io)
    ci, _ = s[C].split("i", factor=3)
    s[B].compute_at(s[C], ci)
    golden_and_right(s)


def test_operands_of_a_reduction_at_a_reduction_loop(golden_and_right):
    A, k = placeholder((6, 10), "int32", "A"), reduce_axis(10, "k")
    B = compute((6, 10), lambda i, k: A[i, k] * 2, "B")
    C = compute(6, lambda i: sum(B[i, k], axis=k), "C")
    s = create_schedule(C)
    ko, _ = s[C].split(k, factor=4)
    s[C].reorder(ko, "i")
    s[B].compute_at(s[C], ko)
    s[B].set_scope("inp")
    golden_and_right(s)


def test_a_reduction_computed_where_only_some_iterations_need_it():
    """The region of the producer depends on a reduction loop of the enclosing stage; so must its initialisation."""
    data, weight = placeholder((1, 4, 4, 2), "int8", "data"), placeholder((2, 3, 3, 2), "int8", "weight")
    first = conv2d(data, weight, padding=1, name="first")
    k = reduce_axis(3, "k")
    C = compute(
        (4, 2),
        lambda y, o: sum(select((y + k >= 1) & (y + k < 5), first[0, y + k - 1, 0, o], 0), axis=k),
        "C",
    )
    s = create_schedule(C)
    s[first].compute_at(s[C], k)
    s[first].set_scope("acc")
    check(s)


def test_dram_keeps_what_a_loop_makes_for_readers_after_it(golden_and_right):
    A = placeholder(12, "int32", "A")
    B = compute(12, lambda i: A[i] + 1, "B")
    C = compute(12, lambda i: B[i] * 2, "C")
    D = compute(12, lambda i: B[i] + C[11 - i], "D")
    s = create_schedule(D)
    s[B].compute_at(s[C], "i")
    golden_and_right(s)


def test_dram_keeps_what_earlier_iterations_have_made():
    """D reads B of iteration i // 2: B may be computed in C, since DRAM holds values of earlier iterations."""
    A = placeholder(12, "int32", "A")
    B = compute(12, lambda i: A[i] + 1, "B")
    C = compute(12, lambda i: B[i] * 2, "C")
    D = compute(12, lambda i: B[i // 2] + 1, "D")
    E = compute(12, lambda i: C[i] + D[i], "E")
    s = create_schedule(E)
    s[C].compute_at(s[E], "i")
    s[D].compute_at(s[E], "i")
    s[B].compute_at(s[C], "i")  # inside C, which comes before D in the loop
    check(s)
