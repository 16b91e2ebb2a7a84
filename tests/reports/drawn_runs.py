"""What the tests of pages share: a script with a tail, sizes of screens, and when a page has drawn its timeline."""

import lathe as lt

LAPTOP, PHONE = (1366, 768), (390, 844)
DRAWN = "performance.getEntriesByName('first picture').length > 0"

SCRIPT = """
import lathe as lt

def build(cfg):
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
"""
"""Rows in three chunks of 16, and one of 12."""


def program_of_script(config="vta"):
    """The program that the script builds."""
    names = {}
    exec(SCRIPT, names)
    return names["build"](lt.load_config(config))
