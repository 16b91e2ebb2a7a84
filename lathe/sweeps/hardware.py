"""Hardware metrics of a sweep's machines: area and clock of the RTL.

Yosys counts the cells of a machine, as ``lathe rtl stats`` does (seconds), or nextpnr places and routes it on a device,
as ``lathe rtl fit`` does (minutes). Results are cached per user; machines that differ only in their memory have
the same hardware, which is synthesised once.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lathe.autotune.schedule_cache import sources_of
from lathe.configs import HardwareConfig, LatheError
from lathe.configs.atomic import write_text
from lathe.rtl.cache import as_built, cache_folder, cache_write_errors, exclusive_lock
from lathe.rtl.derived_widths import RtlError

COUNTS = ("rtl_cells", "rtl_flip_flops", "rtl_memory_bits", "rtl_multipliers")
"""Columns of Yosys's counts of word-level cells, before technology mapping."""
FITS = ("fit_luts", "fit_flip_flops", "fit_multipliers", "fit_block_rams", "fit_mhz")
"""Columns of the resources used on a device, and the clock in MHz that the machine reaches there."""

SOURCES = ("configs", "isa", "rtl")
"""The packages that the hardware of a machine depends on."""
PURPOSE = "hardware metrics"


@dataclass(frozen=True)
class Hardware:
    """The hardware metrics of a sweep: counts, without a ``device``, or a fit on one (``lathe.rtl.fit.DEVICES``)."""

    device: str | None = None
    speed: int = 6
    seed: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the metrics."""
        return COUNTS if self.device is None else FITS


def tools_of(hardware: Hardware) -> dict[str, str]:
    """The versions of the tools. Raises RtlError with the extra to install if one is missing."""
    from lathe.rtl.fit.tools import versions
    from lathe.rtl.yosys import yosys

    if hardware.device is not None:
        return versions()
    return {"yosys": ".".join(map(str, yosys("count the hardware of a sweep").version() or ()))}


def check_hardware(hardware: Hardware) -> None:
    """Raise RtlError if a tool is missing or the cache cannot be written, before the sweep starts."""
    tools_of(hardware)
    cache = cache_folder(PURPOSE)
    with cache_write_errors(cache, PURPOSE):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "hardware.lock").open("w"):
            pass


def hardware_numbers(config: HardwareConfig, hardware: Hardware) -> Mapping[str, float]:
    """The metrics of a machine by column. Raises RtlError for one that cannot be built, or does not fit the device."""
    metrics = _known(built_as(config).with_(name=config.name), hardware)  # its name is for error messages
    if isinstance(metrics, LatheError):
        raise metrics
    return metrics


def built_as(config: HardwareConfig) -> HardwareConfig:
    """A representative of all machines with the same hardware."""
    return as_built(config)


def is_known(config: HardwareConfig, hardware: Hardware) -> bool:
    """Whether a machine's metrics are in the cache."""
    return _read(_path(config, hardware)) is not None


@lru_cache(maxsize=1024)
def _known(config: HardwareConfig, hardware: Hardware) -> "Mapping[str, float] | LatheError":
    """Metrics from the cache or the tools; also an error is returned, so that it is memoised."""
    path = _path(config, hardware)
    metrics = _read(path)
    if metrics is not None:
        return metrics
    with cache_write_errors(path.parent, PURPOSE):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    with lock, exclusive_lock(lock):
        metrics = _read(path)  # another process may have written it meanwhile
        if metrics is None:
            try:
                metrics = _counted(config) if hardware.device is None else _fitted(config, hardware)
            except RtlError as error:
                return error
            with cache_write_errors(path.parent, PURPOSE):
                write_text(path, json.dumps(metrics))
    return metrics


def _path(config: HardwareConfig, hardware: Hardware) -> Path:
    content: dict[str, Any] = {
        "machine": built_as(config).to_dict(),
        "asked": [hardware.device, hardware.speed, hardware.seed],
        "sources": sources_of(SOURCES),
        "tools": tools_of(hardware),
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder(PURPOSE) / f"hardware-{key}.json"


def _read(path: Path) -> dict[str, float] | None:
    """The cached metrics; None if there are none, or the file is damaged."""
    try:
        metrics = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(metrics, dict) and metrics.keys() in (set(COUNTS), set(FITS))
    return metrics if whole and all(type(value) in (int, float) for value in metrics.values()) else None


def _counted(config: HardwareConfig) -> dict[str, float]:
    from lathe.rtl.statistics import statistics, within

    entries = statistics(config)
    total = within(entries, entries[0].path)
    values = (total.cells, total.flip_flops, total.memory_bits, total.multiplier_count)
    return dict(zip(COUNTS, values, strict=True))


def _fitted(config: HardwareConfig, hardware: Hardware) -> dict[str, float]:
    from lathe.rtl.fit import fit

    assert hardware.device is not None
    fitted = fit(config, hardware.device, hardware.speed, hardware.seed)
    return {**{f"fit_{name}": each.used for name, each in fitted.resources.items()}, "fit_mhz": fitted.megahertz}
