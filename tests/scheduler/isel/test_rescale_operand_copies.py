"""Operands that are copied before RESCALE: the micro-ops of the copy are loaded before they run."""

import pytest

import lathe as lt
from lathe.frontend import placeholder


@pytest.mark.slow
@pytest.mark.parametrize("uop_buffer_bytes", [32, 64, 128, 32768])
@pytest.mark.parametrize(("size", "factor", "channels"), [(6, 8, 32), (3, 4, 16)])
def test_the_reset_before_a_copy_runs_micro_ops_that_are_there(size, factor, channels, uop_buffer_bytes):
    """Reset and copy from address 0 share a micro-op: the one that comes first in the stream must load it."""
    machine = lt.load_config("lathe16").with_(uop_buffer_bytes=uop_buffer_bytes)
    small = placeholder((1, size, size, channels), "int8", name="small")
    wide = size * factor
    others = [placeholder((1, wide, wide, channels), "int8", name=f"other{n}") for n in range(3)]
    table = placeholder((256,), "int8", name="table")
    large = lt.compute(
        (1, wide, wide, channels), lambda n, y, x, c: small[n, y // factor, x // factor, c], name="large"
    )
    found = lt.lookup(large, table, name="found")

    def element(n, y, x, c):
        value = others[2][n, y, x, c - 3 * channels]
        for number, each in ((2, others[1]), (1, others[0]), (0, found)):
            value = lt.select(c < (number + 1) * channels, each[n, y, x, c - number * channels if number else c], value)
        return value

    both = lt.compute((1, wide, wide, 4 * channels), element, name="both")
    lt.build(both, [small, *others, table, both], machine, check=True)
