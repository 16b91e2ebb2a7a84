"""What the hardware of a sweep's machines is made of, and how fast its clock may be: numbers of the RTL.

Either Yosys counts what a machine is made of, as ``lathe rtl stats`` does, or nextpnr places and routes it on a device,
as ``lathe rtl fit`` does. Seconds and minutes: machines that differ only in the memory behind their bus have the same
hardware, which is looked at once, whichever process comes first, and kept in the user's cache.
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
from lathe.rtl.cache import as_built, cache_folder, held, writing_to
from lathe.rtl.derived_widths import RtlError

COUNTS = ("rtl_cells", "rtl_flip_flops", "rtl_memory_bits", "rtl_multipliers")
"""Columns of what Yosys counts in words, before anything is mapped to a technology."""
FITS = ("fit_luts", "fit_flip_flops", "fit_multipliers", "fit_block_rams", "fit_mhz")
"""Columns of what a device has to give, and the clock in MHz that the machine reaches there."""

SOURCES = ("configs", "isa", "rtl")
"""What the hardware of a machine depends on."""
PURPOSE = "numbers of hardware"


@dataclass(frozen=True)
class Hardware:
    """What is asked of the hardware: counts, without a ``device``, or a fit on one (``lathe.rtl.fit.DEVICES``)."""

    device: str | None = None
    speed: int = 6
    seed: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The numbers that a row has."""
        return COUNTS if self.device is None else FITS


def tools_of(hardware: Hardware) -> dict[str, str]:
    """The versions of the tools. Raises RtlError with the extra to install where one is missing."""
    from lathe.rtl.fit.tools import versions
    from lathe.rtl.yosys import yosys

    if hardware.device is not None:
        return versions()
    return {"yosys": ".".join(map(str, yosys("The hardware of a sweep").version() or ()))}


def check_hardware(hardware: Hardware) -> None:
    """Raise RtlError where the tools are missing, or results cannot be kept, before long work begins."""
    tools_of(hardware)
    cache = cache_folder(PURPOSE)
    with writing_to(cache, PURPOSE):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "hardware.lock").open("w"):
            pass


def hardware_numbers(config: HardwareConfig, hardware: Hardware) -> Mapping[str, float]:
    """The columns of a machine. Raises RtlError for one that cannot be built, or that a device has no room for."""
    found = _known(built_as(config).with_(name=config.name), hardware)  # its name is for refusals
    if isinstance(found, LatheError):
        raise found
    return found


def built_as(config: HardwareConfig) -> HardwareConfig:
    """The same for all machines of the same hardware."""
    return as_built(config)


def is_known(config: HardwareConfig, hardware: Hardware) -> bool:
    """Whether a machine's numbers are in the cache."""
    return _read(_path(config, hardware)) is not None


@lru_cache(maxsize=1024)
def _known(config: HardwareConfig, hardware: Hardware) -> "Mapping[str, float] | LatheError":
    """Numbers from the cache, or else from the tools; what they refuse, too, so that it is asked once."""
    path = _path(config, hardware)
    found = _read(path)
    if found is not None:
        return found
    with writing_to(path.parent, PURPOSE):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    with lock, held(lock):
        found = _read(path)  # another process may have been quicker
        if found is None:
            try:
                found = _counted(config) if hardware.device is None else _fitted(config, hardware)
            except RtlError as error:
                return error
            with writing_to(path.parent, PURPOSE):
                write_text(path, json.dumps(found))
    return found


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
    """What is kept; None where nothing is, or something damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and found.keys() in (set(COUNTS), set(FITS))
    return found if whole and all(type(value) in (int, float) for value in found.values()) else None


def _counted(config: HardwareConfig) -> dict[str, float]:
    from lathe.rtl.statistics import statistics, within

    entries = statistics(config)
    all_of_it = within(entries, entries[0].path)
    values = (all_of_it.cells, all_of_it.flip_flops, all_of_it.memory_bits, all_of_it.multiplier_count)
    return dict(zip(COUNTS, values, strict=True))


def _fitted(config: HardwareConfig, hardware: Hardware) -> dict[str, float]:
    from lathe.rtl.fit import fit

    assert hardware.device is not None
    found = fit(config, hardware.device, hardware.speed, hardware.seed)
    return {**{f"fit_{name}": each.used for name, each in found.resources.items()}, "fit_mhz": found.megahertz}
