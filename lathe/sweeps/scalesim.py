"""SCALE-Sim's topologies: CSV files with a layer in each line (Samajdar et al., 2018).

Either convolutions, with the columns Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num
Filter, Strides, or products, with the columns Layer, M, N, K (or M, K, N). Columns are known by their names; images are
as they are given, without borders, since the format has none. In place of Strides there may be Stride Height and Stride
Width; a whole number behind the Strides, in a column without a name, is the stride along the width, too. As there, a
layer with DP in its name is depthwise: it has so many filters for each channel. Other columns, such as ratios of
sparsity, are not read: products with zeros count as all others.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lathe.configs.errors import shown
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
    stride_height: int
    stride_width: int
    depthwise: bool = False

    @property
    def groups(self) -> int:
        """How many groups of channels have filters of their own."""
        return self.channels if self.depthwise else 1


@dataclass(frozen=True)
class Product:
    """A (m, k) by (k, n) product."""

    m: int
    n: int
    k: int


Layer: TypeAlias = Convolution | Product

IMAGE = {
    "ifmap height": "height",
    "ifmap width": "width",
    "filter height": "kernel_height",
    "filter width": "kernel_width",
    "channels": "channels",
    "num filter": "filters",
}
STRIDES = "strides"
CONVOLUTION = IMAGE | {STRIDES: "stride_height"}
CONVOLUTION_OF_TWO = IMAGE | {"stride height": "stride_height", "stride width": "stride_width"}
PRODUCT = {"m": "m", "n": "n", "k": "k"}
DEPTHWISE = "DP"
DIGITS = 18
"""Whole numbers of a file have at most so many."""


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
    names = next((each for each in (CONVOLUTION, CONVOLUTION_OF_TWO, PRODUCT) if set(each) <= set(columns)), None)
    if names is None:
        raise SweepError(
            f"The columns of topology {path} must be Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter "
            f"Width, Channels, Num Filter, Strides, or Layer, M, N, K, not {', '.join(name for name in head if name)}."
        )
    found: dict[str, Layer] = {}
    for number, cells in rows:
        if cells[0] in found:
            raise SweepError(
                f"The name of a layer of {path}, line {number}, must be there once, not again: {cells[0]!r}."
            )
        numbers = _numbers(path, number, cells, {names[key]: columns[key] for key in names})
        if names is PRODUCT:
            found[cells[0]] = Product(**numbers)
            continue
        if names is CONVOLUTION:
            numbers |= _stride_of_width(path, number, cells, columns)
        found[cells[0]] = Convolution(**numbers, depthwise=DEPTHWISE in cells[0])
    if not found:
        raise SweepError(f"The topology {path} must have layers, and has only column names.")
    return found


def _numbers(path: str, line: int, cells: list[str], columns: Mapping[str, int]) -> dict[str, int]:
    numbers = {}
    for name, at in columns.items():
        text = cells[at] if at < len(cells) else ""
        if not _is_whole(text) or len(text) > DIGITS or int(text) < 1:
            told = name.replace("_", " ")
            raise SweepError(
                f"The {told} of {path}, line {line}, must be a whole number of at least 1, not {shown(text)}."
            )
        numbers[name] = int(text)
    return numbers


def _stride_of_width(path: str, line: int, cells: list[str], columns: Mapping[str, int]) -> dict[str, int]:
    """What stands behind the strides, if it is a number in a column without a name; else that along the height."""
    strides = columns[STRIDES]
    behind = cells[strides + 1] if strides + 1 < len(cells) else ""
    named = any(name and at == strides + 1 for name, at in columns.items())
    return _numbers(path, line, cells, {"stride_width": strides + 1 if _is_whole(behind) and not named else strides})


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def layer_of(path: str, name: str) -> Layer:
    """One layer of a file. Raises SweepError for a name that none has."""
    layers = layers_of(path)
    if name not in layers:
        raise SweepError(f"The layer of topology {path} must be one of {', '.join(layers)}, not {name!r}.")
    return layers[name]
