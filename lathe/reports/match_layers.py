"""Matching of the layers of two runs by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from lathe.reports.errors import ReportError
from lathe.reports.run_model import Layer, Run

SHOWN_NAMES = 4


@dataclass(frozen=True)
class LayerPair:
    """A layer of one or both runs: its index in each run's layers, or None if the run does not have it."""

    name: str
    first: int | None
    second: int | None


def paired_layers(first: Run, second: Run) -> tuple[LayerPair, ...]:
    """The layers of two runs, matched by name; layers of the same name are matched in order.

    The order is that of the first run; a layer of the second run only comes after its predecessor there.
    Raises ReportError if the runs have no layer in common.
    """
    own, others = _numbered(first.layers), _numbered(second.layers)
    pairs = {key: LayerPair(key[0], at, others.get(key)) for key, at in own.items()}
    if not any(each.second is not None for each in pairs.values()):
        raise ReportError(
            f"Cannot compare two runs without a layer of the same name: {first.name} has {_names(first.layers)}, "
            f"{second.name} has {_names(second.layers)}. Give runs of the same program or network, or give tensors the "
            "same names."
        )
    order = list(pairs)
    position = 0
    for key, at in others.items():
        if key in pairs:
            position = order.index(key) + 1
            continue
        pairs[key] = LayerPair(key[0], None, at)
        order.insert(position, key)
        position += 1
    return tuple(pairs[key] for key in order)


def _numbered(layers: Sequence[Layer]) -> dict[tuple[str, int], int]:
    """The indices of layers by name and by the number of preceding layers of that name."""
    counts: dict[str, count[int]] = {}
    return {(each.name, next(counts.setdefault(each.name, count()))): at for at, each in enumerate(layers)}


def _names(layers: Sequence[Layer]) -> str:
    names = [repr(each.name) for each in layers]
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return (", ".join(names[:SHOWN_NAMES]) or "none") + more
