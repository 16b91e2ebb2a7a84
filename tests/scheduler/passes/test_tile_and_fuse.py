"""Pass ``tile-and-fuse``: fusion groups of which no tile fits are cut; one stage is stored, and loaded by the rest."""

import pytest
from random_programs import random_inputs
from small_machine import run

import lathe as lt
from lathe.scheduler.passes import tile_and_fuse
from lathe.scheduler.tiling import search, search_space

BOARD = lt.load_config("board")


def check(output, machine):
    schedule = lt.create_schedule(output)
    return run(schedule, machine, random_inputs([output], seed=3))


def test_two_tables_where_one_fits():
    """`board` holds one table: the result of the first lookup is stored."""
    assert BOARD.lut_depth == 256
    X = lt.placeholder((4, 16), "int8", name="X")
    A, B = (lt.placeholder((256,), "int8", name=name) for name in "AB")
    program = check(lt.lookup(lt.lookup(X, A, name="first"), B, name="second"), BOARD)
    assert any(segment.name.startswith("first") for segment in program.segments)


def test_operands_that_are_looked_up_in_tables_of_their_own():
    X, Y = (lt.placeholder((4, 16), "int8", name=name) for name in "XY")
    A, B = (lt.placeholder((256,), "int8", name=name) for name in "AB")
    P = lt.placeholder((16, 2, 2), "int32", name="P")
    check(lt.rescaled_add(lt.lookup(X, A, name="a"), lt.lookup(Y, B, name="b"), parameters=P, name="Q"), BOARD)


@pytest.mark.parametrize("channels", [3, 8, 16, 20])
def test_tables_of_each_channel(channels):
    X = lt.placeholder((4, channels), "int8", name="X")
    A, B = (lt.placeholder((256, channels), "int8", name=name) for name in "AB")
    check(lt.lookup(lt.lookup(X, A, name="a"), B, name="b"), lt.load_config("lathe16"))


@pytest.mark.parametrize("channels", [4, 5, 8, 9, 12])
def test_a_vector_of_parameters_for_each_operand(channels):
    """Reads at distant constant indices load all between them: two vectors for a block of channels, which fit."""
    machine = lt.load_config("tiny").with_(extensions=("rescale", "rescale_add"), par_buffer_bytes=64)
    assert machine.par_depth == 2
    X, Y = lt.placeholder((3, channels), "int32", name="X"), lt.placeholder((3, channels), "int8", name="Y")
    P = lt.placeholder((channels, 2, 2), "int32", name="P")
    check(lt.rescaled_add(X, Y, parameters=P, name="Q"), machine)


def test_parameters_of_more_channels_than_fit_at_once():
    X, Y = lt.placeholder((3, 1024), "int32", name="X"), lt.placeholder((3, 1024), "int8", name="Y")
    P = lt.placeholder((1024, 2, 2), "int32", name="P")
    assert 1024 // BOARD.block_out == BOARD.par_depth
    check(lt.rescaled_add(X, Y, parameters=P, name="Q"), BOARD)


@pytest.mark.parametrize("channels", [3, 16, 24, 32])
def test_a_table_for_each_channel_of_a_gemm_operand(channels):
    """`board` loads vectors of 16 channels, and has tables for 8: tiles of 8 are stored next to each other."""
    X, V = lt.placeholder((4, 32), "int8", name="X"), lt.placeholder((channels, 32), "int8", name="V")
    P, A = lt.placeholder((channels, 2), "int32", name="P"), lt.placeholder((256, channels), "int8", name="A")
    W, Q = lt.placeholder((16, channels), "int8", name="W"), lt.placeholder((16, 2), "int32", name="Q")
    first = lt.lookup(lt.requantise(lt.dense(X, V, name="x"), parameters=P, name="y"), A, name="first")
    check(lt.requantise(lt.dense(first, W, name="z"), parameters=Q, name="second"), BOARD)


def residual(rows, inputs, channels):
    """Two GEMMs in one group, each with parameters, and those of their sum."""
    X, Z = (lt.placeholder((rows, inputs), "int8", name=name) for name in "XZ")
    V, W = (lt.placeholder((channels, inputs), "int8", name=name) for name in "VW")
    P, Q = (lt.placeholder((channels, 2), "int32", name=name) for name in "PQ")
    R = lt.placeholder((channels, 2, 2), "int32", name="R")
    first = lt.requantise(lt.dense(X, V, name="x"), parameters=P, name="first")
    second = lt.requantise(lt.dense(Z, W, name="z"), parameters=Q, name="second")
    return lt.rescaled_add(first, second, parameters=R, name="added")


def stored(program):
    return [segment.name for segment in program.segments if segment.name in ("first", "second")]


def test_hoisted_loads_leave_space_for_later_ones():
    """64 of 128 parameter vectors fit: hoisting all of the sum's would leave no space for tiles of the GEMMs'."""
    machine = lt.load_config("lathe16").with_(par_buffer_bytes=8192)
    assert machine.par_depth == 64
    program = check(residual(16, 32, 512), machine)
    assert not stored(program)


@pytest.mark.slow
def test_gemms_have_separate_tiles_if_scratchpads_are_small():
    """A tile of both GEMMs fits, but is so small that storing one result and loading it again is faster."""
    machine = lt.load_config("lathe16").with_(
        inp_buffer_bytes=2048, wgt_buffer_bytes=16384, acc_buffer_bytes=8192, par_buffer_bytes=2048
    )
    assert stored(check(residual(64, 256, 512), machine)) == ["second"]
    assert not stored(check(residual(64, 256, 512), lt.load_config("lathe16")))


def sum_of_products(number: int) -> lt.Tensor:
    """A tree of additions of 1×1 convolutions of the same image, each requantised to 8 bits."""
    data = lt.placeholder((1, 6, 6, 32), "int8", name="data")
    weights = [lt.placeholder((32, 1, 1, 32), "int8", name=f"w{n}") for n in range(number)]
    made = [lt.requantise(lt.conv2d(data, each, name=f"c{n}"), 6, name=f"r{n}") for n, each in enumerate(weights)]
    while len(made) > 1:
        pairs = list(zip(made[::2], made[1::2], strict=True))
        names = [f"{len(made)}_{n}" for n in range(len(pairs))]
        sums = [lt.add(*pair, name=f"a{name}") for pair, name in zip(pairs, names, strict=True)]
        made = [lt.requantise(each, 1, name=f"q{name}") for each, name in zip(sums, names, strict=True)]
    return made[0]


@pytest.mark.slow
def test_sums_of_many_gemms_are_cut_once_and_then_their_parts(monkeypatch):
    """Combining all cuts with all cuts of the resulting groups would visit every subtree in every order."""
    visited: list[str] = []
    tile_whole_group = tile_and_fuse._tile_whole_group

    def counted(schedule, group, *rest):
        visited.append(group.sink.name)
        assert len(visited) < 80  # 55 if the best cut is made first
        return tile_whole_group(schedule, group, *rest)

    monkeypatch.setattr(tile_and_fuse, "_tile_whole_group", counted)
    check(sum_of_products(8), lt.load_config("vta").with_(wgt_buffer_bytes=2048, acc_buffer_bytes=4096))
    assert len(visited) > 8


def test_tilings_of_many_reductions_are_few(monkeypatch):
    """All pairs of tilings for two reductions; for more GEMMs, the same tiling for all but one."""
    found: dict[int, list[int]] = {}

    def counted(model):
        ways = search_space.reductions(model)
        found.setdefault(len(model.reduction), []).append(len(ways))
        assert len({tuple(way.values()) for way in ways}) == len(ways)
        assert {stage: axis.extent for stage, axis in model.reduction.items()} in ways
        return ways

    monkeypatch.setattr(search, "reductions", counted)
    data = lt.placeholder((1, 4, 4, 64), "int8", name="data")
    total = None
    for n in range(5):
        weights = lt.placeholder((32, 1, 1, 64), "int8", name=f"w{n}")
        made = lt.conv2d(data, weights, name=f"c{n}")
        total = made if total is None else lt.add(total, made, name=f"a{n}")
    check(lt.requantise(total, 6, name="out"), lt.load_config("vta"))
    assert max(found) == 5
    assert set(found[5]) == {3 * (1 + 5 * 2)}  # 243 in all: the whole, halves and quarters of 64 channels
