"""NumPy integers are accepted like Python's: every primitive that takes a number gives the same nest for both."""

import numpy as np
import pytest
from error_checks import raises
from nests import text

import lathe as lt


class Scheduled:
    """The schedule of two stages, B and C."""

    def __init__(self):
        A = lt.placeholder((24, 16), "int8", name="A")
        self.B = lt.compute(A.shape, lambda i, j: lt.max(A[i, j], 0), name="B")
        self.C = lt.compute(A.shape, lambda i, j: lt.min(self.B[i, j], 100), name="C")
        self.s = lt.create_schedule(self.C)
        self.b, self.c = self.s[self.B], self.s[self.C]


def doubled(each, n):
    each.b.set_scope("acc")
    each.b.compute_at(each.c, "i")
    each.b.double_buffer(n(2))


COMMANDS = {
    "split": lambda x, n: x.b.split("i", factor=n(5)),
    "split in parts": lambda x, n: x.b.split("i", nparts=n(5)),
    "tile": lambda x, n: x.b.tile("i", "j", n(4), n(8)),
    "unroll": lambda x, n: x.b.unroll("i", n(4)),
    "vectorize": lambda x, n: x.b.vectorize("j", n(4)),
    "separate": lambda x, n: x.b.separate("i", n(4)),
    "shift": lambda x, n: x.b.shift("i", n(4)),
    "skew": lambda x, n: x.b.skew("i", "j", n(1), n(1)),
    "vthread": lambda x, n: x.b.vthread("i", n(4)),
    "double_buffer": doubled,
    "receive": lambda x, n: (x.b.set_scope("acc"), x.c.receive("compute", "i", n(1))),
    "store_in": lambda x, n: x.b.store_in(lambda i, j: i * n(16) + j),
    "store_in one cell": lambda x, n: x.c.store_in(x.s.buffer("X", (n(24), n(16))), lambda i, j: [i, j]),
    "transform_layout": lambda x, n: x.s.transform_layout(x.B, lambda i, j: [i // n(7), i % n(7), j], pad_value=n(3)),
}


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_numpys_integers_as_pythons(command, kind):
    texts = []
    for number in (int, kind):
        scheduled = Scheduled()
        COMMANDS[command](scheduled, number)
        texts.append(text(scheduled.s))
    assert texts[0] == texts[1]


def test_truth_values_of_numpy_are_no_numbers():
    scheduled = Scheduled()
    mentions = ("factor", "split", "i", "axis", "B", "np.True_")
    raises(lt.ScheduleError, scheduled.b.split, "i", factor=np.True_, kind="argument", mentions=mentions)


def test_a_place_in_a_layout_is_asked_for_with_numpys_integers():
    scheduled = Scheduled()
    scheduled.s.transform_layout(scheduled.B, lambda i, j: [j, i])
    assert scheduled.s.layout(scheduled.B).index(np.int64(3), np.uint8(5)) == (5, 3)
