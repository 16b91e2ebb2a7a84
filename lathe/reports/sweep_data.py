"""The rows of a store as a page has them: columns of numbers, or of few texts, and the layers of all points in a row.

Ten thousand points with their layers are millions of values, which lists of JSON would take ten times the room of.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import LatheError
from lathe.configs.parameter_listing import given_values
from lathe.reports.columns import packed
from lathe.reports.units import is_better_great, unit_of
from lathe.sweeps.machines import OWN_KEYS, changed
from lathe.sweeps.measurement import NUMBERS
from lathe.sweeps.store import StoredRow
from lathe.sweeps.tables import SECONDS

LAYER_COLUMNS = ("cycles", "bytes", "bound", "macs")
ROLES = ("workload", "shape", "base", "machine", "status", "metric", "reason")
"""What a column says of a point: in this order they stand in the table."""


def sweep_data(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """Plain values and packed arrays of all rows: what the scripts of the page read."""
    roles = roles_of(rows)
    columns = [_column(name, role, [row.columns.get(name) for row in rows]) for name, role in roles.items()]
    columns.append(_column(SECONDS, "metric", [row.seconds for row in rows]))
    return {
        "count": len(rows),
        "columns": sorted(columns, key=lambda each: ROLES.index(each["role"])),
        "layers": _layers(rows),
        "machines": _machines(rows),
    }


def roles_of(rows: Iterable[StoredRow]) -> dict[str, str]:
    """The columns of rows, each with what it says. A row has its shapes before its base, and its machine behind it."""
    found: dict[str, str] = {}
    for row in rows:
        role = "shape"
        for name in row.columns:
            if name in ("workload", "base", "status", "reason"):
                found.setdefault(name, name)
                role = "machine" if name == "base" else role
            else:
                found.setdefault(name, "metric" if name in NUMBERS else role)
    return found


def _column(name: str, role: str, values: Sequence[Any]) -> dict[str, Any]:
    """One column: numbers with NaN where there is none, or numbers of texts with -1 there."""
    made: dict[str, Any] = {"name": name, "role": role, "unit": unit_of(name), "great": is_better_great(name)}
    known = [value for value in values if value is not None]
    if role in ("shape", "machine", "metric") and all(type(value) in (int, float) for value in known):
        return {**made, "values": packed(_numbers(values))}
    texts = [None if value is None else str(value) for value in values]
    kept = {text: number for number, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([-1 if text is None else kept[text] for text in texts], np.int32)
    return {**made, "texts": list(kept), "codes": packed(codes)}


def _numbers(values: Sequence[Any]) -> NDArray[Any]:
    """Whole numbers stay whole where all are there, since they take less room."""
    if all(type(value) is int and abs(value) < 1 << 31 for value in values):
        return np.array(values, np.int64)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _layers(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """Names of layers once for all points that share them; numbers of all points behind each other."""
    families: dict[tuple[str, ...], int] = {}
    family = [families.setdefault(tuple(map(str, row.layers.get("layer", ()))), len(families)) for row in rows]
    columns: dict[str, list[float]] = {name: [] for name in LAYER_COLUMNS}
    for row in rows:
        count = len(row.layers.get("layer", ()))
        for name, values in columns.items():
            values += row.layers.get(name) or [np.nan] * count
    return {
        "families": [list(names) for names in families],
        "family": packed(np.array(family, np.int32)),
        "columns": {name: packed(_whole(values)) for name, values in columns.items()},
    }


def _whole(values: Sequence[float]) -> NDArray[Any]:
    """Whole numbers as such; -1 where there is none."""
    return np.nan_to_num(np.array(values, np.float64), nan=-1).astype(np.int64)


def _machines(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """Every parameter of the machines of all points: those that all share, and columns of the others.

    Of a base that is no longer there only what the sweep has changed is known.
    """
    bases: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    known = []
    for row in rows:
        base, changes = str(row.columns.get("base")), _changes(row)
        own = {name: changes.pop(name) for name in OWN_KEYS if changes.get(name) is not None}
        key = (base, *own.items())
        if key not in bases:
            bases[key] = _parameters(base, own)
        known.append({**bases[key], **{name: value for name, value in changes.items() if value is not None}})
    names = dict.fromkeys(name for each in known for name in each)
    columns = {name: [each.get(name) for each in known] for name in names}
    same = {name: values[0] for name, values in columns.items() if all(value == values[0] for value in values)}
    varying = [_column(name, "machine", values) for name, values in columns.items() if name not in same]
    return {"same": same, "varying": varying}


def _changes(row: StoredRow) -> dict[str, Any]:
    """What the sweep has changed of the base: the columns between that and the status."""
    names = list(row.columns)
    if "base" not in names:
        return {}
    begin = names.index("base") + 1
    end = names.index("status") if "status" in names else begin
    return {name: row.columns[name] for name in names[begin:end]}


def _parameters(base: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A machine's parameters; none where it is not to be had."""
    try:
        values = given_values(changed(base, changes).config)
    except LatheError:
        return {}
    return {name: ", ".join(value) if isinstance(value, list) else value for name, value in values.items()}
