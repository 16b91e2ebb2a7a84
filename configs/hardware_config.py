"""The machine description: checked parameters, copies with changes, and conversion to plain values."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from lathe.configs.errors import ConfigError, shown
from lathe.configs.html_repr import repr_html
from lathe.configs.integers import normalise_integers
from lathe.configs.memory import MemoryConfig, TimingConfig
from lathe.configs.parameters import MachineParameters
from lathe.configs.validate_config import fault_in, unknown_key


@dataclass(frozen=True)
class HardwareConfig(MachineParameters):
    """One machine. Immutable and hashable; the constructor checks it, so that every instance is valid.

    ``batch``, ``block_in`` and ``block_out`` (powers of two) shape the matrix core: one GEMM micro-op multiplies a
    batch × block_in input vector by a transposed block_out × block_in weight vector. The ``*_bits`` are the widths of
    scalar elements: 8, 8, 32 and 8 are supported. The ``*_buffer_bytes`` (powers of two) are the sizes of the
    scratchpads; par and lut belong to extensions and have 0 where these are off. ``extensions`` lists what the machine
    has beyond VTA: rows of :mod:`lathe.configs.extensions`. All other numbers are derived.

    Raises :class:`ConfigError` when a parameter is not allowed, and when the fields that index the scratchpads do not
    fit into 128-bit instructions or 32-bit micro-ops.
    """

    _repr_html_ = repr_html

    def __post_init__(self) -> None:
        normalise_integers(self)
        if isinstance(self.extensions, list):  # as read from YAML
            object.__setattr__(self, "extensions", tuple(self.extensions))
        fault = fault_in(self)
        if fault is not None:
            raise ConfigError.at(f"machine {self.name!r}", fault)

    # Copies with changes, and the plain values for files.

    def with_(self, **changes: Any) -> Self:
        """A copy with the given parameters changed, checked like any other machine.

        Keys are the names of fields; parameters of the sections memory and timing are dotted: ``cfg.with_(batch=2,
        **{"memory.latency": 0})``. Raises :class:`ConfigError` for unknown keys and for values that are not allowed.
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
        """The independent parameters as plain values, for JSON and YAML; the inverse of ``from_dict``."""
        return dataclasses.asdict(self) | {"extensions": list(self.extensions)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The machine that ``to_dict`` wrote; missing memory and timing parameters get their defaults."""
        own = dict(values)
        own["memory"] = MemoryConfig(**own.get("memory", {}))
        own["timing"] = TimingConfig(**own.get("timing", {}))
        return cls(**own)


def check_machine(config: object, where: str) -> None:
    """Raise ConfigError unless ``config`` is a machine."""
    if not isinstance(config, HardwareConfig):
        raise ConfigError(
            f"machine of {where} must be a HardwareConfig, not {shown(config)}. Make one with load_config."
        )
