"""Machines with extensions, and with the scratchpads that these require."""

from collections.abc import Collection

from lathe.configs import HardwareConfig
from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.configs.extensions import EXTENSIONS

EVERY = tuple(EXTENSIONS)
"""All extensions."""


def with_extensions(cfg: HardwareConfig, names: Collection[str], parameters: int = 128) -> HardwareConfig:
    """The machine with exactly these extensions; if they need lut or par, with two tables, and ``parameters`` vectors
    or as many as of weights.
    """
    par = min(parameters, cfg.wgt_depth) * cfg.par_element_bytes if "rescale" in names else 0
    lut = 2 * TABLE_ELEMENTS * cfg.lut_element_bytes if "lookup" in names else 0
    return cfg.with_(extensions=tuple(names), par_buffer_bytes=par, lut_buffer_bytes=lut)
