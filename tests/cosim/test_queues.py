"""Multi-buffering, virtual threads, barriers and explicit tokens on the RTL: bits and cycles equal the simulator's."""

from collections.abc import Callable

import numpy as np
import pytest

import lathe as lt

CONFIG = lt.load_config("tiny")


class Matmul:
    """An 8 × 24 matmul in tiles of 8 columns, with a split reduction and operands loaded for each slice of it."""

    def __init__(self) -> None:
        self.A = lt.placeholder((8, 20), "int8", name="A")
        self.B = lt.placeholder((24, 20), "int8", name="B")
        self.C = lt.matmul(self.A, self.B, transpose_b=True, name="C")
        self.D = lt.requantise(self.C, 6, name="D")
        s = self.schedule = lt.create_schedule(self.D)
        self.made = s.cache_write(self.D, "acc")
        self.rows, self.columns = s.cache_read(self.A, "inp", [self.C]), s.cache_read(self.B, "wgt", [self.C])
        rows, columns = s[self.D].axis
        self.tile, inner = s[self.D].split(columns, factor=8)
        s[self.D].reorder(self.tile, rows, inner)
        s[self.C].set_scope("acc")
        for tensor in (self.made, self.C):
            s[tensor].compute_at(s[self.D], self.tile)
        self.slice, k = s[self.C].split("k", factor=4)
        s[self.C].reorder(self.slice, *s[self.C].axis, k)
        for tensor in (self.rows, self.columns):
            s[tensor].compute_at(s[self.C], self.slice)
        generator = np.random.default_rng(5)
        self.inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (self.A, self.B)}

    def run(self) -> lt.Cosimulation[lt.Result]:
        program = lt.build(self.schedule, [self.A, self.B, self.D], CONFIG)
        assert lt.verify(program) == []
        ran = lt.cosimulate(program, self.inputs, engines=("sim", "pysim")).check()
        assert ran.agree
        np.testing.assert_array_equal(ran.outputs["D"], lt.reference(self.D, self.inputs))
        return ran


def one_buffer(p: Matmul) -> None:
    for tensor in (p.made, p.C, p.rows, p.columns):
        p.schedule[tensor].double_buffer(1)


def three_buffers(p: Matmul) -> None:
    p.schedule[p.rows].double_buffer(3)
    p.schedule[p.columns].double_buffer(3)


def two_threads(p: Matmul) -> None:
    one_buffer(p)
    p.schedule[p.D].vthread(p.tile, 2)


def threads_of_slices(p: Matmul) -> None:
    p.schedule[p.D].vthread(p.tile, 3)
    p.schedule[p.C].vthread(p.slice, 2)


def barriers(p: Matmul) -> None:
    p.schedule.barrier_at(p.schedule[p.D], p.tile)
    p.schedule.barrier_at(p.schedule[p.C])


def tokens(p: Matmul) -> None:
    """Rows are loaded only when the previous GEMM is done; the next tile waits until this one is stored."""
    p.schedule[p.C].send("load", p.slice)
    p.schedule[p.rows].receive("compute", ahead=1)
    p.schedule[p.D].send("compute", p.tile)
    p.schedule[p.C].receive("store", ahead=1)


WAYS: list[Callable[[Matmul], None]] = [one_buffer, three_buffers, two_threads, threads_of_slices, barriers, tokens]


@pytest.mark.parametrize("way", WAYS)
def test_simulator_and_rtl_agree(way):
    matmul = Matmul()
    way(matmul)
    matmul.run()


def test_multi_buffering_and_threads_take_fewer_cycles_than_neither():
    cycles = {}
    for way in (one_buffer, three_buffers, two_threads):
        matmul = Matmul()
        way(matmul)
        cycles[way] = matmul.run().cycles
    assert cycles[three_buffers] < cycles[one_buffer]
    assert cycles[two_threads] < cycles[one_buffer]


def test_a_token_received_before_it_is_sent():
    """The second matmul's data is loaded when the first one is done, although the load precedes it in the stream."""
    data, weights = ([lt.placeholder((8, 8), "int8", name=f"{name}{n}") for n in range(2)] for name in "AW")
    products = [
        lt.matmul(a, w, transpose_b=True, name=f"P{n}") for n, (a, w) in enumerate(zip(data, weights, strict=True))
    ]
    s = lt.create_schedule(products)
    made = [s.cache_write(matmul, "acc") for matmul in products]
    loaded = [s.cache_read(a, "inp", [m]) for a, m in zip(data, made, strict=True)]
    for w, m in zip(weights, made, strict=True):
        s.cache_read(w, "wgt", [m])
    first = ["A0.inp", "W0.wgt", "A1.inp"]
    s = s.fork()  # no schedule command reorders loads
    s.reorder_stages(sorted(s.stages, key=lambda stage: first.index(stage.name) if stage.name in first else len(first)))
    s[made[0]].send("load")
    s[loaded[1]].receive("compute")
    generator = np.random.default_rng(1)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (*data, *weights)}
    program = lt.build(s, [*data, *weights, *products], CONFIG)
    ran = lt.cosimulate(program, inputs, engines=("sim", "pysim")).check()
    for name, values in lt.reference(products, inputs).items():
        np.testing.assert_array_equal(ran.outputs[name], values)
