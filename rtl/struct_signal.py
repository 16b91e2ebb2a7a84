"""Signals with named fields."""

from typing import Any

from amaranth import Signal
from amaranth.lib import data


def structured(layout: data.Layout, name: str | None = None, *, reset: bool = True) -> Any:
    """A signal of a layout, with its fields as attributes; Any, since these are not known statically."""
    named = {} if name is None else {"name": name}
    return Signal(layout, **named, reset_less=not reset)
