"""Reads topology files of SCALE-Sim: CSV with a layer in each line (Samajdar et al., 2018).

A file has either convolutions (columns Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels,
Num Filter, Strides) or matmuls (columns Layer, M, N, K). Columns with these names may be in any order; with other names
they are read by position, as SCALE-Sim reads them. Convolutions have no padding, since the format has none. Instead of
Strides there may be Stride Height and Stride Width; an integer after Strides, in a column without a name, is the stride
along the width. Batch or Batch Size is the number of images. As in SCALE-Sim, a layer with DP in its name is depthwise,
with Num Filter filters per channel. Sparsity ratios (2:4) are ignored, as by SCALE-Sim's default configuration, and so
are texts in other columns. A number there, such as a padding or a dilation, would change the work: it is refused unless
it means that there is none (0, and for all but padding 1).
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lathe.configs.errors import shown
from lathe.sweeps.errors import SweepError


@dataclass(frozen=True)
class Convolution:
    """A convolution of ``batch`` images without padding."""

    height: int
    width: int
    kernel_height: int
    kernel_width: int
    channels: int
    filters: int
    stride_height: int
    stride_width: int
    depthwise: bool = False
    batch: int = 1

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
BATCH = ("batch", "batch size")
DEPTHWISE = "DP"
DIGITS = 18
"""The maximum number of digits of an integer."""
NUMBER = re.compile(r"[-+]?[0-9.]+%?")


def layers_of(path: str) -> dict[str, Layer]:
    """The layers of a file by name; of layers with one name, the later ones get a number ("fc", "fc 2").

    Raises SweepError with the line of an invalid layer.
    """
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
        names = _form_by_position(rows[0][1] if rows else [])
        if names is None:
            raise SweepError(
                f"The columns of topology {path} must be Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter "
                f"Width, Channels, Num Filter, Strides, or Layer, M, N, K, not {', '.join(filter(None, head))}."
            )
        positions = {name: at for at, name in enumerate(names, 1)}
        columns = positions | {name: at for name, at in columns.items() if at > len(names)}
    fields = {names[key]: columns[key] for key in names}
    if names is not PRODUCT:
        fields.update(("batch", columns[name]) for name in BATCH if name in columns)
    layers: dict[str, Layer] = {}
    for number, cells in rows:
        numbers = _numbers(path, number, cells, fields)
        read = {0, *fields.values()}
        if names is CONVOLUTION:
            numbers |= _stride_of_width(path, number, cells, columns)
            read |= set() if _named(columns, columns[STRIDES] + 1) else {columns[STRIDES] + 1}
        _check_others(path, number, cells, {at: name for name, at in columns.items() if name and at not in read})
        name, count = cells[0], 1
        while name in layers:
            count += 1
            name = f"{cells[0]} {count}"
        if names is PRODUCT:
            layers[name] = Product(**numbers)
        else:
            layers[name] = Convolution(**numbers, depthwise=DEPTHWISE in cells[0])
    if not layers:
        raise SweepError(f"The topology {path} must have at least one layer, not only column names.")
    return layers


def _form_by_position(cells: list[str]) -> dict[str, str] | None:
    """The form of a file whose column names are others: by the number of integers that follow the name of a layer."""
    count = 0
    while count + 1 < len(cells) and _is_whole(cells[count + 1]):
        count += 1
    return CONVOLUTION if count >= len(CONVOLUTION) else PRODUCT if count == len(PRODUCT) else None


def _check_others(path: str, line: int, cells: list[str], others: Mapping[int, str]) -> None:
    """Refuse a number in a column that is not read, unless it changes no work."""
    for at, name in others.items():
        text = cells[at] if at < len(cells) else ""
        neutral = ("0",) if "pad" in name else ("0", "1")
        if NUMBER.fullmatch(text) and text not in neutral:
            raise SweepError(
                f"The {name} of {path}, line {line}, must be {' or '.join(neutral)}, not {shown(text)}: this column is "
                "not supported. Remove it if the layer is to be measured without it."
            )


def _named(columns: Mapping[str, int], at: int) -> bool:
    return any(name and index == at for name, index in columns.items())


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
    unnamed = _is_whole(after) and not _named(columns, strides + 1)
    return _numbers(path, line, cells, {"stride_width": strides + 1 if unnamed else strides})


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def layer_of(path: str, name: str) -> Layer:
    """The layer of a file with this name. Raises SweepError if there is none."""
    layers = layers_of(path)
    if name not in layers:
        raise SweepError(f"The layer of topology {path} must be one of {', '.join(layers)}, not {name!r}.")
    return layers[name]
