"""The machine of a point: its base with the changes, the memory of a preset, and the clock that gives its time."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from lathe.configs import ConfigError, HardwareConfig, MemoryConfig, load_config
from lathe.configs.errors import shown
from lathe.sweeps.dram import DRAM_KEYS, Dram, presets
from lathe.sweeps.specification import Point

CLOCK = "clock_mhz"
DRAM = "dram"
OWN_KEYS = (CLOCK, DRAM)
"""Keys of a sweep's machines that are no parameters of a machine."""


@dataclass(frozen=True)
class Machine:
    """A machine, the clock that it runs at in MHz if one is given, and its DRAM if it is a known one."""

    config: HardwareConfig
    clock_mhz: float | None = None
    dram: Dram | None = None

    def with_memory(self, memory: MemoryConfig) -> HardwareConfig:
        """The same machine behind another memory, for which programs of this one run as they are."""
        return replace(self.config, memory=memory)


def machine_of(point: Point) -> Machine:
    """The machine of a point. Raises ConfigError for one that does not exist."""
    return changed(point.base, point.changes)


def changed(base: str, changes: Mapping[str, Any]) -> Machine:
    """A base with changes. Raises ConfigError for a machine that does not exist."""
    own = {key: value for key, value in changes.items() if key in OWN_KEYS}
    others = {key: value for key, value in changes.items() if key not in OWN_KEYS}
    clock = _clock(own.get(CLOCK))
    config = _base(base, _stamp(base)).with_(**others)
    if DRAM not in own:
        return Machine(config, clock)
    known = presets()
    name = own[DRAM]
    if name not in known:
        raise ConfigError(f"dram of machine {config.name!r} must be one of {', '.join(known)}, not {shown(name)}.")
    if clock is None:
        raise ConfigError(
            f"dram of machine {config.name!r} must come with clock_mhz, which its cycles are counted with, and does "
            "not. Give clock_mhz."
        )
    memory = known[name].at(clock)
    return Machine(config.with_(**dict(zip(DRAM_KEYS, memory, strict=True))), clock, known[name])


def _clock(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
        raise ConfigError(f"clock_mhz of a sweep must be a number of MHz above 0, up to 1000000, not {shown(value)}.")
    return float(value)


def _stamp(base: str) -> int:
    try:
        return os.stat(base).st_mtime_ns
    except (OSError, ValueError):
        return 0


@lru_cache(maxsize=64)
def _base(base: str, stamp: int) -> HardwareConfig:  # noqa: ARG001 - a file that has changed is another machine
    return load_config(base)
