"""Reads topology files of SCALE-Sim: CSV with a layer in each line (Samajdar et al., 2018).

A file has either convolutions (columns Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels,
Num Filter, Strides) or matmuls (columns Layer, M, N, K, in any order). Convolutions have no padding, since the format
has none. Instead of Strides there may be Stride Height and Stride Width; an integer after Strides, in a column without
a name, is the stride along the width. As in SCALE-Sim, a layer with DP in its name is depthwise, with Num Filter
filters per channel. Other columns, such as sparsity ratios, are ignored.
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
    """A convolution of one image without padding."""

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
        """The number of groups of channels."""
        return self.channels if self.depthwise else 1


@dataclass(frozen=True)
class Product:
    """A matmul of (m, k) by (k, n)."""

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
"""The maximum number of digits of an integer."""


def layers_of(path: str) -> dict[str, Layer]:
    """The layers of a file by name. Raises SweepError with the line of an invalid one."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, [cell.strip() for cell in line]) for number, line in enumerate(csv.reader(file), 1)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SweepError(f"Cannot read topology {path} as a CSV file: {reason}.") from None
    lines = [(number, cells) for number, cells in lines if any(cells)]
    if not lines:
        raise SweepError(f"The topology {path} must begin with a line of column names, but it is empty.")
    (_, head), *rows = lines
    columns = {" ".join(name.lower().split()): at for at, name in enumerate(head)}
    names = next((each for each in (CONVOLUTION, CONVOLUTION_OF_TWO, PRODUCT) if set(each) <= set(columns)), None)
    if names is None:
        raise SweepError(
            f"The columns of topology {path} must be Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter "
            f"Width, Channels, Num Filter, Strides, or Layer, M, N, K, not {', '.join(name for name in head if name)}."
        )
    layers: dict[str, Layer] = {}
    for number, cells in rows:
        if cells[0] in layers:
            raise SweepError(f"Layer {cells[0]!r} of {path}, line {number}, must have a name of its own. Rename it.")
        numbers = _numbers(path, number, cells, {names[key]: columns[key] for key in names})
        if names is PRODUCT:
            layers[cells[0]] = Product(**numbers)
            continue
        if names is CONVOLUTION:
            numbers |= _stride_of_width(path, number, cells, columns)
        layers[cells[0]] = Convolution(**numbers, depthwise=DEPTHWISE in cells[0])
    if not layers:
        raise SweepError(f"The topology {path} must have at least one layer, not only column names.")
    return layers


def _numbers(path: str, line: int, cells: list[str], columns: Mapping[str, int]) -> dict[str, int]:
    numbers = {}
    for name, at in columns.items():
        text = cells[at] if at < len(cells) else ""
        if not _is_whole(text) or len(text) > DIGITS or int(text) < 1:
            title = name.replace("_", " ")
            raise SweepError(
                f"The {title} of {path}, line {line}, must be an integer of at least 1, not {shown(text)}."
            )
        numbers[name] = int(text)
    return numbers


def _stride_of_width(path: str, line: int, cells: list[str], columns: Mapping[str, int]) -> dict[str, int]:
    """The integer after Strides if its column has no name, else the stride along the height."""
    strides = columns[STRIDES]
    after = cells[strides + 1] if strides + 1 < len(cells) else ""
    named = any(name and at == strides + 1 for name, at in columns.items())
    return _numbers(path, line, cells, {"stride_width": strides + 1 if _is_whole(after) and not named else strides})


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def layer_of(path: str, name: str) -> Layer:
    """The layer of a file with this name. Raises SweepError if there is none."""
    layers = layers_of(path)
    if name not in layers:
        raise SweepError(f"The layer of topology {path} must be one of {', '.join(layers)}, not {name!r}.")
    return layers[name]
