"""SCALE-Sim's topologies: CSV files with a layer in each line (Samajdar et al., 2018).

Either convolutions, with the columns Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num
Filter, Strides, or products, with the columns Layer, M, N, K (or M, K, N). Columns are known by their names; images are
as they are given, without borders, since the format has none.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lathe.sweeps.errors import SweepError


@dataclass(frozen=True)
class Convolution:
    """A convolution of one image without a border."""

    height: int
    width: int
    kernel_height: int
    kernel_width: int
    channels: int
    filters: int
    stride: int


@dataclass(frozen=True)
class Product:
    """A (m, k) by (k, n) product."""

    m: int
    n: int
    k: int


Layer: TypeAlias = Convolution | Product

CONVOLUTION = {
    "ifmap height": "height",
    "ifmap width": "width",
    "filter height": "kernel_height",
    "filter width": "kernel_width",
    "channels": "channels",
    "num filter": "filters",
    "strides": "stride",
}
PRODUCT = {"m": "m", "n": "n", "k": "k"}


def layers_of(path: str) -> dict[str, Layer]:
    """The layers of a file by their names. Raises SweepError with the line for what is no layer."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, [cell.strip() for cell in line]) for number, line in enumerate(csv.reader(file), 1)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SweepError(f"The topology {path} must be a CSV file that can be read, and is not: {reason}.") from None
    lines = [(number, cells) for number, cells in lines if any(cells)]
    if not lines:
        raise SweepError(f"The topology {path} must have a line of column names, and is empty.")
    (_, head), *rows = lines
    columns = {" ".join(name.lower().split()): at for at, name in enumerate(head)}
    kinds = ((CONVOLUTION, Convolution), (PRODUCT, Product))
    kind = next((each for each in kinds if set(each[0]) <= set(columns)), None)
    if kind is None:
        raise SweepError(
            f"The columns of topology {path} must be Layer name, {', '.join(name.title() for name in CONVOLUTION)}, or "
            f"Layer, M, N, K, not {', '.join(name for name in head if name)}."
        )
    names, make = kind
    found: dict[str, Layer] = {}
    for number, cells in rows:
        if cells[0] in found:
            raise SweepError(
                f"The name of a layer of {path}, line {number}, must be there once, not again: {cells[0]!r}."
            )
        found[cells[0]] = make(**_numbers(path, number, cells, {names[key]: columns[key] for key in names}))
    if not found:
        raise SweepError(f"The topology {path} must have layers, and has only column names.")
    return found


def _numbers(path: str, line: int, cells: list[str], columns: Mapping[str, int]) -> dict[str, int]:
    numbers = {}
    for name, at in columns.items():
        text = cells[at] if at < len(cells) else ""
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            told = name.replace("_", " ")
            raise SweepError(f"The {told} of {path}, line {line}, must be a whole number of at least 1, not {text!r}.")
        numbers[name] = int(text)
    return numbers


def layer_of(path: str, name: str) -> Layer:
    """One layer of a file. Raises SweepError for a name that none has."""
    layers = layers_of(path)
    if name not in layers:
        raise SweepError(f"The layer of topology {path} must be one of {', '.join(layers)}, not {name!r}.")
    return layers[name]
