"""Refusals in random tests: counted by kind, and limited to a share of all attempts.

A refusal of a kind that a test does not expect fails it, and so do too many: otherwise a compiler that refuses
everything would pass.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import get_args

from seeds import event, note

from lathe.configs import LatheError, RefusalKind
from lathe.scheduler import BuildError, CapacityError, EmitError, ScheduleError

COMMAND, BUILD = "command", "build"
EXPECTED = {COMMAND: (ScheduleError,), BUILD: (BuildError, CapacityError, EmitError)}


@contextmanager
def counted(what: str, *errors: type[LatheError]) -> Iterator[list[LatheError]]:
    """Count the ``with`` body as accepted, or as refused by kind; the error is caught and put in the list."""
    refusal: list[LatheError] = []
    expected = errors or EXPECTED[what]
    try:
        yield refusal
    except expected as error:
        refusal.append(error)
    for error in refusal:
        note(f"refused ({error.kind}): {error}")
        assert " must " in str(error) or str(error).startswith("Cannot "), f"no constraint or reason in {error}"
        event(f"{what}: {error.kind}")
    if not refusal:
        event(f"{what}: accepted")


@dataclass(frozen=True)
class Shares:
    """The minimum share accepted, and the maximum share refused by kind; other kinds are unexpected."""

    accepted: float
    refused: Mapping[RefusalKind, float]


def check_shares(happened: Counter[str], what: str, shares: Shares) -> None:
    """Fail if counts of a block of seeds exceed the shares by more than chance explains.

    The tolerance is four standard deviations plus one: commands on one program are not independent.
    """
    total = sum(count for name, count in happened.items() if name.startswith(f"{what}: "))

    def slack(share: float) -> float:
        return 4 * sqrt(total * share * (1 - share)) + 1

    accepted = happened[f"{what}: accepted"]
    told = ", ".join(f"{name} {count}" for name, count in sorted(happened.items()) if name.startswith(f"{what}: "))
    assert accepted >= total * shares.accepted - slack(shares.accepted), f"too few accepted: {told}"
    for kind in get_args(RefusalKind):
        share, found = shares.refused.get(kind, 0.0), happened[f"{what}: {kind}"]
        assert found == 0 or kind in shares.refused, f"no {what} is expected to be refused as {kind}: {told}"
        assert found <= total * share + slack(share), f"too many refused as {kind}: {told}"
