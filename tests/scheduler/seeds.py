"""Random tests over many seeds: a failure reports its seed and notes, and a run counts events.

A test marked ``seeds(count, slow=0, first=0, block=20)`` takes ``seeds``, a block of them as a range, and is run once
for each block, so that workers share them: ``count`` seeds by default, ``slow`` more with ``-m slow``.
A test that takes ``seed`` instead is run for each alone. ``tests/conftest.py`` makes the blocks.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

_NOTES: list[str] = []
_EVENTS: Counter[str] = Counter()


def note(text: str) -> None:
    """Show ``text`` if the current seed fails."""
    _NOTES.append(text)


def event(name: str) -> None:
    """Count an event."""
    _EVENTS[name] += 1


def check_each(seeds: range, check: Callable[..., Any], *arguments: Any) -> Counter[str]:
    """Call ``check(seed, *arguments)`` for each seed; returns the counts of events."""
    _EVENTS.clear()
    for seed in seeds:
        _NOTES.clear()
        try:
            check(seed, *arguments)
        except Exception as error:
            error.add_note("\n".join((f"seed {seed}", *_NOTES)))
            raise
    return Counter(_EVENTS)
