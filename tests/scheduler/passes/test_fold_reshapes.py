"""Reshapes of any size are recognised, and other computations are not."""

import random
from math import prod

import numpy as np
import pytest
from seeds import check_each, event

import lathe as lt
from lathe.frontend import evaluate
from lathe.scheduler.passes.fold_reshapes import source_of_reshape


def factors(rng, elements):
    extents = []
    while elements > 1:
        extents.append(rng.choice([each for each in range(2, elements + 1) if elements % each == 0]))
        elements //= extents[-1]
    return tuple(extents)


def reading(tensor, shape, off=0):
    """A computation of ``shape`` that reads the elements of ``tensor`` in order, each shifted by ``off`` positions."""

    def element(*axes):
        flat = 0
        for axis, extent in zip(axes, shape, strict=True):
            flat = flat * extent + axis
        flat, indices = (flat + off) % prod(shape), []
        for extent in reversed(tensor.shape):
            indices.append(flat % extent)
            flat = flat // extent
        return tensor[tuple(reversed(indices))]

    return lt.compute(shape, element, name="C")


def source(computed):
    return source_of_reshape(lt.create_schedule(computed)[computed])


@pytest.mark.seeds(60, slow=600, block=60)
def test_only_reshapes_are_recognised(seeds):
    def check(seed):
        rng = random.Random(seed)
        elements = rng.choice([36, 48, 60, 64, 72, 1024, 5040])
        A = lt.placeholder(factors(rng, elements), "int8", name="A")
        shape = factors(rng, elements)
        C = reading(A, shape, rng.choice([0, 0, 1, elements - 1]))
        grids = dict(zip(C.computation.axes, np.indices(shape), strict=True))
        read = C.computation.bodies[0]
        flat = np.ravel_multi_index([np.broadcast_to(evaluate(i, grids), shape) for i in read.indices], A.shape)
        is_reshape = A.shape != shape and np.array_equal(flat.reshape(-1), np.arange(elements))
        event("reshape" if is_reshape else "none")
        assert source(C) is (A if is_reshape else None)

    assert all(check_each(seeds, check)[each] >= 10 for each in ("reshape", "none"))


def test_a_reshape_of_any_size_is_recognised():
    A = lt.placeholder((2**20, 2**20), "int8", name="A")
    assert source(reading(A, (2**30, 2**10))) is A
    assert source(reading(A, (2**30, 2**10), off=1)) is None


def test_a_broadcast_element_of_a_reshaped_tensor():
    """The broadcast has another shape, so it cannot be computed before the reshape."""
    A, B = lt.placeholder((3, 20), "int8", name="A"), lt.placeholder((1, 1), "int8", name="B")
    made = reading(lt.compute((1, 1), lambda i, j: B[i, j] + 1, name="M"), (1,))
    whole = lt.compute((3, 20), lambda i, j: made[i * 0 + j * 0], name="W")
    C = lt.compute((3, 20), lambda i, j: lt.max(A[i, j], whole[i, j]), name="largest")
    program = lt.build(C, [A, B, C], lt.load_config("lathe16"))
    inputs = {"A": np.arange(60, dtype=np.int8).reshape(3, 20), "B": np.full((1, 1), 30, np.int8)}
    assert np.array_equal(lt.simulate(program, inputs).outputs["largest"], np.maximum(inputs["A"], 31))
