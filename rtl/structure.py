"""Signals with named fields."""

from typing import Any

from amaranth import Signal
from amaranth.lib import data


def structured(layout: data.Layout, name: str | None = None) -> Any:
    """A signal of a layout, whose fields are attributes; typed loosely, for fields come into being at run time."""
    return Signal(layout, name=name) if name is not None else Signal(layout)
