"""Limits on shares of refusals in random tests: too many of a kind fail, and so does an unexpected kind."""

from collections import Counter

import pytest
from messages import refusal
from seeds import check_each
from shares import BUILD, COMMAND, Shares, check_shares, counted

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import BuildError, LegalityError, ScheduleError, create_schedule

SHARES = Shares(accepted=0.6, refused={"argument": 0.3, "limit": 0.1})


def happened(**counts: int) -> Counter[str]:
    return Counter({f"command: {name}": count for name, count in counts.items()} | {"build: limit": 500})


def test_counts_within_the_shares_pass():
    check_shares(happened(accepted=600, argument=300, limit=100), COMMAND, SHARES)
    check_shares(happened(accepted=5, argument=3, limit=2), COMMAND, SHARES)
    check_shares(happened(), COMMAND, SHARES)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"accepted": 500, "argument": 350, "limit": 150}, "too few accepted: command: accepted 500, command: arg"),
        ({"accepted": 700, "argument": 100, "limit": 200}, "too many refused as limit"),
        ({"accepted": 600, "argument": 390, "limit": 10}, "too many refused as argument"),
        ({"accepted": 999, "machine": 1}, "no command is expected to be refused as machine"),
        ({"limit": 20}, "too few accepted: command: limit 20"),
    ],
)
def test_counts_beyond_them_fail(counts, message):
    assert refusal(AssertionError, check_shares, happened(**counts), COMMAND, SHARES).startswith(message)


def test_what_becomes_of_commands_is_counted_by_kind():
    A, k = placeholder((8, 8), "int32", "A"), reduce_axis((0, 8), "k")
    B = compute((8,), lambda i: sum(A[i, k], axis=k), "B")

    def commands(_: int) -> None:
        s = create_schedule(B)
        for command in (
            lambda: s[B].split("i", 4),
            lambda: s[B].split("i", 4),
            lambda: s[B].fuse("ii", "k"),
            lambda: s[B].parallelize("k"),
        ):
            with counted(COMMAND):
                command()

    assert check_each(range(2), commands) == {
        "command: accepted": 2,
        "command: argument": 2,
        "command: limit": 2,
        "command: legality": 2,
    }


def test_other_errors_than_refusals_pass_through():
    with pytest.raises(ZeroDivisionError), counted(COMMAND):
        _ = 1 // 0
    with pytest.raises(ScheduleError), counted(BUILD):
        raise ScheduleError("x must be y, not z.", kind="limit")
    with pytest.raises(AssertionError, match="no constraint or reason in nothing"), counted(BUILD):
        raise BuildError("nothing", kind="limit")
    assert issubclass(LegalityError, ScheduleError)
