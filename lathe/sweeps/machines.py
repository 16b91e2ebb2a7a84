"""The machine of a point: its base machine with changed parameters, a DRAM preset, and a clock."""

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
"""Keys of a sweep's machines that are not machine parameters."""


@dataclass(frozen=True)
class Machine:
    """A machine, its clock in MHz if one is given, and its DRAM preset if it has one."""

    config: HardwareConfig
    clock_mhz: float | None = None
    dram: Dram | None = None

    def with_memory(self, memory: MemoryConfig) -> HardwareConfig:
        """The machine with other memory parameters, on which the same programs run."""
        return replace(self.config, memory=memory)


def machine_of(point: Point) -> Machine:
    """The machine of a point. Raises ConfigError for an invalid one."""
    return changed(point.base, point.changes)


def changed(base: str, changes: Mapping[str, Any]) -> Machine:
    """A base machine with changes. Raises ConfigError for an invalid one."""
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
            f"Cannot use dram {name!r} in machine {config.name!r} without clock_mhz, which converts its times to "
            "cycles. Give clock_mhz."
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
def _base(base: str, stamp: int) -> HardwareConfig:  # noqa: ARG001 - part of the cache key, since files change
    return load_config(base)
