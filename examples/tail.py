"""A matmul whose number of rows is no multiple of the tile, tiled manually: three chunks of 16 rows and one of 12.

    python examples/tail.py [CONFIG]

``lathe compile examples/tail.py -o tail.npz`` compiles it; ``lathe report examples/tail.py`` draws what each unit did.
"""

import sys

import numpy as np

import lathe as lt


def build(cfg):
    """The program for the machine of ``-c``."""
    A = lt.placeholder((60, 64), "int8", name="A")
    B = lt.placeholder((96, 64), "int8", name="B")
    k = lt.reduce_axis((0, 64), name="k")
    C = lt.compute((60, 96), lambda i, j: lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C")
    D = lt.compute(C.shape, lambda i, j: lt.min(lt.max(C[i, j] >> 8, 0), 127).astype("int8"), name="D")
    s = lt.create_schedule(D)
    made = s.cache_write(D, "acc")
    rows = s.cache_read(A, "inp", [C])
    s.cache_read(B, "wgt", [C])
    s[C].set_scope("acc")
    io, ii = s[D].split(s[D].axis[0], factor=16)
    for stage in (made, C, rows):
        s[stage].compute_at(s[D], io)
    return lt.build(s, [A, B, D], cfg)


if __name__ == "__main__":
    program = build(lt.load_config(sys.argv[1] if len(sys.argv) > 1 else "vta"))
    rng = np.random.default_rng(0)
    inputs = {"A": rng.integers(-128, 128, (60, 64), np.int8), "B": rng.integers(-128, 128, (96, 64), np.int8)}
    result = lt.simulate(program, inputs)
    sums = inputs["A"].astype(np.int32) @ inputs["B"].astype(np.int32).T
    assert np.array_equal(result.outputs["D"], np.clip(sums >> 8, 0, 127)), "bits differ from NumPy"
    print(f"{len(program.instructions)} instructions, {result.cycles} cycles, equal to NumPy")
