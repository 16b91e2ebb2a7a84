"""Reading machines from files: the shipped YAML, the user's YAML, and VTA's own JSON."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lathe.configs.errors import ConfigError, Fault, shown
from lathe.configs.hardware import HardwareConfig
from lathe.configs.memory import MemoryConfig, TimingConfig
from lathe.configs.validation import REQUIRED_KEYS, SECTIONS, TOP_LEVEL_KEYS, nearest, unknown_key
from lathe.configs.vta_json import from_vta_json, is_vta_json
from lathe.configs.yaml_text import NotYamlError, composed, value_of

_FOLDER = Path(__file__).parent


@cache
def shipped_configs() -> tuple[str, ...]:
    """The names of the machines that come with Lathe."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_config(source: str | os.PathLike[str]) -> HardwareConfig:
    """The machine of a shipped name, of a YAML file, or of a JSON file in the form of VTA's ``vta_config.json``.

    Raises :class:`ConfigError` naming file, line and key, what the key allows and the nearest known key.
    """
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(
            f"The configuration must be one of {', '.join(shipped_configs())}, or the path of a YAML or JSON file, not "
            f"{shown(source)}."
        )
    text = os.fspath(source)
    if text in shipped_configs():
        return _load_file(_FOLDER / f"{text}.yaml")
    path = Path(text)
    if os.path.exists(text):  # unlike Path.exists, also of a name that no file can have
        return _load_file(path)
    names = shipped_configs()
    if path.suffix or os.sep in text:
        raise ConfigError(
            f"The configuration file {text} must exist, and does not. "
            f"Correct the path, or give the name of a shipped machine: {', '.join(names)}.",
            file=path,
        )
    guess = nearest(text, names)
    raise ConfigError(
        f"The configuration must be one of {', '.join(names)}, or the path of a YAML or JSON file, not {shown(text)}."
        + (f" {guess}" if guess else "")
    )


def _load_file(path: Path) -> HardwareConfig:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"The configuration file {path} must be readable, and is not: {reason}. Correct the path or its rights.",
            file=path,
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"The configuration file {path} must be UTF-8 text, not {error.object[error.start]:#04x} "
            f"at byte {error.start}. Save it as UTF-8.",
            file=path,
        ) from None
    if is_vta_json(text):
        return from_vta_json(text, path)
    return _Reader(path, text).machine()


class _Reader:
    """One YAML file: its keys and values, and the line on which each key stands."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.lines: dict[str, int] = {}

    def machine(self) -> HardwareConfig:
        values = self.values()
        for key in REQUIRED_KEYS:
            if key not in values:
                raise ConfigError(
                    f"The keys of {self.path} must include {key}, and do not. "
                    f"A machine needs {', '.join(REQUIRED_KEYS)}.",
                    file=self.path,
                )
        values.setdefault("name", self.path.stem)
        values["memory"] = MemoryConfig(**values.get("memory", {}))
        values["timing"] = TimingConfig(**values.get("timing", {}))
        try:
            return HardwareConfig(**values)
        except ConfigError as error:
            fault = error.fault
            assert fault is not None, "a machine is refused only for one of its keys"
            raise ConfigError.at(str(self.path), fault, file=self.path, line=self.lines.get(fault.key)) from None

    def values(self) -> dict[str, Any]:
        """Top-level keys to values, where memory and timing are dictionaries."""
        try:
            root = composed(self.text)
            if not isinstance(root, yaml.MappingNode):
                what = "empty" if root is None else shown(value_of(root))
                raise self.error(
                    1,
                    None,
                    f"The content of {self.path} must be keys with values such as 'batch: 1', "
                    f"not {what}. Write one parameter on each line.",
                )
            return self.mapping(root, "")
        except NotYamlError as error:
            raise self.no_yaml(str(error), error.line) from None

    def no_yaml(self, reason: str, line: int | None) -> ConfigError:
        place = f"{self.path}, line {line}," if line is not None else f"{self.path}"
        return ConfigError(
            f"The text of {place} must be YAML, and is not: {reason}. Correct the line.", file=self.path, line=line
        )

    def mapping(self, node: yaml.MappingNode, section: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = str(value_of(key_node))
            dotted = f"{section}.{key}" if section else key
            fault = unknown_key(dotted)
            if fault is None and not section and key not in TOP_LEVEL_KEYS:
                inner_section, _, parameter = key.partition(".")
                fault = Fault(
                    key,
                    "A key",
                    f"one of {', '.join(TOP_LEVEL_KEYS)}, not {key!r}",
                    f"Write {parameter!r} indented under '{inner_section}:'.",
                )
            if fault is not None:
                raise ConfigError.at(str(self.path), fault, file=self.path, line=line)
            if key in values:
                raise self.error(
                    line,
                    dotted,
                    f"Key {dotted} of {self.path}, line {line}, must stand once, "
                    f"not again after line {self.lines[dotted]}. Remove one of the two.",
                )
            self.lines[dotted] = line
            if dotted in SECTIONS:
                if not isinstance(value_node, yaml.MappingNode):
                    raise self.error(
                        line,
                        dotted,
                        f"{dotted} of {self.path}, line {line}, must be keys with values, indented, "
                        f"not {shown(value_of(value_node))}. Write one parameter on each "
                        f"line under '{dotted}:'.",
                    )
                values[key] = self.mapping(value_node, key)
            else:
                values[key] = value_of(value_node)
        return values

    def error(self, line: int, key: str | None, message: str) -> ConfigError:
        fault = Fault(key, key, "", "") if key is not None else None
        return ConfigError(message, fault=fault, file=self.path, line=line)


def config_to_yaml(config: HardwareConfig) -> str:
    """A YAML text that ``load_config`` reads back to an equal machine."""
    # JSON strings are YAML strings; PyYAML alone would write tuples and long names in forms of its own.
    lines = []
    for key, value in config.to_dict().items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines.extend(f"  {inner}: {json.dumps(number)}" for inner, number in value.items())
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"
