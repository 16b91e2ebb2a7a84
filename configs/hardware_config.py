"""The hardware description: a machine, its parameters checked, and other machines like it."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from lathe.configs.errors import ConfigError, shown
from lathe.configs.html_repr import repr_html
from lathe.configs.integers import hold_plain_integers
from lathe.configs.memory import MemoryConfig, TimingConfig
from lathe.configs.parameters import MachineParameters
from lathe.configs.validate_config import fault_in, unknown_key


@dataclass(frozen=True)
class HardwareConfig(MachineParameters):
    """One machine. Immutable and hashable; making one checks it, so that every instance is a machine of Lathe's.

    ``batch``, ``block_in`` and ``block_out`` (powers of two) shape the matrix core: one GEMM micro-op multiplies a
    batch × block_in input with a block_out × block_in weight, transposed. The ``*_bits`` are element widths, 8, 8, 32
    and 8 for now. The ``*_buffer_bytes`` (powers of two) are the scratchpads' sizes; par and lut, which belong to
    extensions, have 0 where these are off. ``extensions`` names what the machine has beyond VTA: rows of
    :mod:`lathe.configs.extensions`. Everything else is derived.

    Raises :class:`ConfigError` when a parameter is not allowed, and when the fields that index the scratchpads do not
    fit 128-bit instructions or 32-bit micro-ops.
    """

    _repr_html_ = repr_html

    def __post_init__(self) -> None:
        hold_plain_integers(self)
        if isinstance(self.extensions, list):  # as YAML has them
            object.__setattr__(self, "extensions", tuple(self.extensions))
        fault = fault_in(self)
        if fault is not None:
            raise ConfigError.at(f"machine {self.name!r}", fault)

    # Other machines like this one, and the plain form for files.

    def with_(self, **changes: Any) -> Self:
        """A copy with the given parameters changed, checked like any other machine.

        Keys are fields' names; parameters of the memory and of the timing are dotted:
        ``cfg.with_(batch=2, **{"memory.latency": 0})``. Raises :class:`ConfigError` for unknown keys and for values
        that are not allowed.
        """
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {"memory": {}, "timing": {}}
        for key, value in changes.items():
            section, dot, parameter = key.partition(".")
            fault = unknown_key(key)
            if fault is not None:
                raise ConfigError.at(f"machine {self.name!r}", fault)
            if dot:
                inner[section][parameter] = value
            else:
                own[key] = value
        for section, values in inner.items():
            base = own.get(section, getattr(self, section))
            if values and isinstance(base, MemoryConfig | TimingConfig):
                own[section] = dataclasses.replace(base, **values)
        return dataclasses.replace(self, **own)

    def to_dict(self) -> dict[str, Any]:
        """The independent parameters as plain values, for JSON and YAML; ``from_dict`` reads them back."""
        return dataclasses.asdict(self) | {"extensions": list(self.extensions)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The machine that ``to_dict`` wrote; memory and timing parameters that are missing get their defaults."""
        own = dict(values)
        own["memory"] = MemoryConfig(**own.get("memory", {}))
        own["timing"] = TimingConfig(**own.get("timing", {}))
        return cls(**own)


def check_machine(config: object, where: str) -> None:
    """Raises ConfigError unless ``config`` is a machine."""
    if not isinstance(config, HardwareConfig):
        raise ConfigError(
            f"machine of {where} must be a HardwareConfig, not {shown(config)}. Make one with load_config."
        )
