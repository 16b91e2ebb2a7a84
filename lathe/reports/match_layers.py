"""Two runs beside each other: which layer of one is which of the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from lathe.reports.errors import ReportError
from lathe.reports.run_model import Layer, Run

SHOWN_NAMES = 4


@dataclass(frozen=True)
class LayerPair:
    """A layer of both runs, by its places among their layers; None where a run has no such layer."""

    name: str
    first: int | None
    second: int | None


def paired_layers(first: Run, second: Run) -> tuple[LayerPair, ...]:
    """The layers of two runs: those of one name are one, the first with the first where several share it.

    They stand as in the first run; what only the second has follows the layer behind which it runs there.
    Raises ReportError where no layer is in both.
    """
    own, others = _numbered(first.layers), _numbered(second.layers)
    pairs = {key: LayerPair(key[0], at, others.get(key)) for key, at in own.items()}
    if not any(each.second is not None for each in pairs.values()):
        raise ReportError(
            f"Two runs that are compared must have a layer of the same name, and have none: {first.name} has "
            f"{_names(first.layers)}, {second.name} has {_names(second.layers)}. Give runs of the same program or "
            "network, or give tensors the same names."
        )
    order = list(pairs)
    behind = 0
    for key, at in others.items():
        if key in pairs:
            behind = order.index(key) + 1
            continue
        pairs[key] = LayerPair(key[0], None, at)
        order.insert(behind, key)
        behind += 1
    return tuple(pairs[key] for key in order)


def _numbered(layers: Sequence[Layer]) -> dict[tuple[str, int], int]:
    """The places of layers by name, and by how many of the same name run before."""
    counts: dict[str, count[int]] = {}
    return {(each.name, next(counts.setdefault(each.name, count()))): at for at, each in enumerate(layers)}


def _names(layers: Sequence[Layer]) -> str:
    names = [repr(each.name) for each in layers]
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return (", ".join(names[:SHOWN_NAMES]) or "none") + more
