"""Layout conversions: after all of them, blocks of stored vectors have the order of loadable vectors."""

import numpy as np
import pytest
from shaped_machines import machine

from lathe.isa import Layout, PhysicalAxis
from lathe.scheduler.layout.vector_relayout import conversions_needed, digits, positions, selection, vectors_with_rows
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.schedule_ir.stage import VectorLayout

SHAPES = [(b, i, o) for b in (1, 2, 4, 8) for i in (4, 8, 16, 32) for o in (4, 8, 16, 32)]


def turned(stored, config, turn):
    """The bytes of a span after one layout conversion: load, GEMM, store."""
    loaded = stored.reshape(-1, config.batch, config.block_in)
    matrices = selection(config, turn).astype(np.int64)
    if config.block_out > config.block_in:
        return sum(data @ matrix.T for data, matrix in zip(loaded, matrices, strict=True)).reshape(-1)
    return np.concatenate([(loaded[0] @ matrix.T).reshape(-1) for matrix in matrices])


def vectors(values, config, columns):
    """The bytes of a span as vectors of ``columns`` columns; narrow ones in the order that ``positions`` gives."""
    found = values.reshape(len(values), -1, columns).transpose(1, 0, 2)
    if columns == max(config.block_in, config.block_out):
        return found.reshape(-1)
    moved = positions(config) or [1 << bit for bit in range(len(found).bit_length() - 1)]
    offsets = [sum(each for bit, each in enumerate(moved) if number >> bit & 1) for number in range(len(found))]
    assert sorted(offsets) == list(range(len(found)))
    return found[np.argsort(offsets)].reshape(-1)


@pytest.mark.parametrize(("batch", "block_in", "block_out"), SHAPES)
def test_all_turns_convert_stored_vectors_to_loadable_ones(batch, block_in, block_out):
    config = machine(batch, block_in, block_out)
    span = max(block_in, block_out)
    values = np.arange(batch * span).reshape(batch, span)
    stored = vectors(values, config, block_out)
    for turn in range(1, conversions_needed(config) + 1):
        stored = turned(stored, config, turn)
        axes = digits(vector_type_of(config, "acc"), VectorLayout(0, 1, turn))
        assert (
            Layout((batch, span), "int32", axes).pack(values.astype(np.int32)).reshape(-1).tolist() == stored.tolist()
        )
    assert stored.tolist() == vectors(values, config, block_in).tolist()


@pytest.mark.sample(94)
@pytest.mark.parametrize(("batch", "block_in", "block_out"), SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_vectors_without_rows_of_the_tensor_are_left_out(batch, block_in, block_out, rows):
    """With zeros in the rows beyond the tensor's, the vectors that are left out would hold only zeros."""
    config = machine(batch, block_in, block_out)
    values = np.arange(1, 1 + batch * max(block_in, block_out)).reshape(batch, -1)
    values[rows:] = 0
    stored = vectors(values, config, block_out)
    for turn in range(1, conversions_needed(config) + 1):
        held, wide = vectors_with_rows(config, turn, rows), config.block_out > config.block_in
        parts = stored.reshape(-1, batch, block_in) if wide else None
        if parts is not None:
            assert not parts[held:].any()
        stored = turned(stored, config, turn)
        if parts is None:
            assert not stored.reshape(-1, batch, block_out)[held:].any()


def test_one_image_in_a_batch_of_four_takes_a_quarter_of_the_micro_ops():
    assert vectors_with_rows(machine(4, 4, 32), 1, 1) == 2
    assert vectors_with_rows(machine(4, 32, 8), 1, 2) == 2
    assert vectors_with_rows(machine(4, 4, 32), 1, 4) == 8


@pytest.mark.parametrize(("batch", "block_in", "block_out"), SHAPES)
def test_only_the_first_matrix_has_a_one_at_its_beginning(batch, block_in, block_out):
    config = machine(batch, block_in, block_out)
    for turn in range(1, conversions_needed(config) + 1):
        assert selection(config, turn)[:, 0, 0].tolist() == [1] + [0] * (len(selection(config, turn)) - 1)


def test_no_turn_with_a_batch_of_1_or_equal_widths():
    assert conversions_needed(machine(1, 8, 16)) == conversions_needed(machine(4, 16, 16)) == 0


@pytest.mark.parametrize(
    ("batch", "block_in", "block_out", "turns"),
    [
        (2, 8, 16, 1),
        (2, 16, 8, 1),
        (4, 4, 16, 1),
        (2, 4, 16, 1),
        (4, 8, 16, 2),
        (2, 32, 4, 1),
        (4, 4, 32, 1),
        (8, 16, 8, 3),
    ],
)
def test_as_few_turns_as_bits_allow(batch, block_in, block_out, turns):
    """One if a row has at least as many blocks as there are rows, in any order of the blocks."""
    assert conversions_needed(machine(batch, block_in, block_out)) == turns


def test_blocks_are_in_order_where_that_takes_no_more_turns():
    assert positions(machine(4, 16, 4)) == positions(machine(8, 16, 8)) == positions(machine(2, 16, 16)) == ()
    assert positions(machine(2, 4, 16)) == (2, 1)


def test_rows_that_no_dimension_fills_are_broadcast():
    config = machine(2, 4, 8)
    axes = digits(vector_type_of(config, "acc"), VectorLayout(None, 0, 1))
    assert PhysicalAxis(-2, 1, 2) in axes
    packed = Layout((8,), "int32", axes).pack(np.arange(8, dtype=np.int32)).reshape(-1)
    assert packed.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7]
