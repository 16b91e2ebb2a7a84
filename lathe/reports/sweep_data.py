"""The data of a sweep's page: columns of numbers or dictionary-encoded texts, and the layers of all points.

Ten thousand points with their layers are millions of values; JSON lists of them would be ten times as large.
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
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.store import StoredRow
from lathe.sweeps.tables import SECONDS

LAYER_COLUMNS = ("cycles", "bytes", "bound", "macs")
ROLES = ("workload", "shape", "base", "machine", "status", "metric", "reason")
"""The roles of columns, in the order of the table."""


def sweep_data(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """The data for the scripts of the page: plain values and packed arrays of all rows."""
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
    """The columns of rows with their roles. A row has its shapes before its base, and machine parameters after it."""
    found: dict[str, str] = {}
    for row in rows:
        role = "shape"
        for name in row.columns:
            if name in ("workload", "base", "status", "reason"):
                found.setdefault(name, name)
                role = "machine" if name == "base" else role
            else:
                found.setdefault(name, "metric" if name in METRICS else role)
    return found


def _column(name: str, role: str, values: Sequence[Any]) -> dict[str, Any]:
    """One column: numbers with NaN for missing ones, or texts as codes with -1 for missing ones."""
    made: dict[str, Any] = {"name": name, "role": role, "unit": unit_of(name), "great": is_better_great(name)}
    known = [value for value in values if value is not None]
    if role in ("shape", "machine", "metric") and all(type(value) in (int, float) for value in known):
        return {**made, "values": packed(_numbers(values))}
    texts = [None if value is None else str(value) for value in values]
    code_of = {text: number for number, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([-1 if text is None else code_of[text] for text in texts], np.int32)
    return {**made, "texts": list(code_of), "codes": packed(codes)}


def _numbers(values: Sequence[Any]) -> NDArray[Any]:
    """Numbers as an array: int64 if all are integers of 32 bits, which packs smaller, otherwise float64."""
    if all(type(value) is int and abs(value) < 1 << 31 for value in values):
        return np.array(values, np.int64)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _layers(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """Layer names, stored once for all points that share them, and the concatenated metrics of all points' layers."""
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
    """Integers, with -1 for missing values."""
    return np.nan_to_num(np.array(values, np.float64), nan=-1).astype(np.int64)


def _machines(rows: Sequence[StoredRow]) -> dict[str, Any]:
    """Every parameter of the machines of all points: values that all share, and columns of the others.

    If the file of a base no longer exists, only the parameters that the sweep changed are known.
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
    """The parameters that the sweep changed: the columns between the base and the status."""
    names = list(row.columns)
    if "base" not in names:
        return {}
    begin = names.index("base") + 1
    end = names.index("status") if "status" in names else begin
    return {name: row.columns[name] for name in names[begin:end]}


def _parameters(base: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A machine's parameters; empty if it cannot be loaded."""
    try:
        values = given_values(changed(base, changes).config)
    except LatheError:
        return {}
    return {name: ", ".join(value) if isinstance(value, list) else value for name, value in values.items()}
