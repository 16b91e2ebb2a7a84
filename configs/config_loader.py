"""Loader of machine descriptions: shipped YAML, user YAML, and VTA's own JSON."""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lathe.configs.errors import ConfigError, KeyViolation, shown
from lathe.configs.hardware_config import HardwareConfig
from lathe.configs.validate_config import REQUIRED_KEYS, SECTIONS, TOP_LEVEL_KEYS, nearest, unknown, unknown_key
from lathe.configs.vta_json import from_vta_json, is_vta_json
from lathe.configs.yaml_file import YamlFile, line_of, read_text

_FOLDER = Path(__file__).parent


@cache
def shipped_configs() -> tuple[str, ...]:
    """The names of the machines that come with Lathe."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_config(source: str | os.PathLike[str]) -> HardwareConfig:
    """The machine with a shipped name, of a YAML file, or of a JSON file in the format of VTA's ``vta_config.json``.

    Raises :class:`ConfigError` naming file, line and key, the key's contract and the closest known key.
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
    if os.path.exists(text):  # unlike Path.exists, also for a name that no file can have
        return _load_file(path)
    names = shipped_configs()
    if path.suffix or os.sep in text:
        raise ConfigError(
            f"The configuration file {text if text.isprintable() else shown(text)} must exist, and does not. "
            f"Correct the path, or give the name of a shipped machine: {', '.join(names)}.",
            file=path,
        )
    guess = nearest(text, names)
    raise ConfigError(
        f"The configuration must be one of {', '.join(names)}, or the path of a YAML or JSON file, not {shown(text)}."
        + (f" {guess}" if guess else "")
    )


def _load_file(path: Path) -> HardwareConfig:
    text = read_text(path, "configuration file", "Correct the path or its permissions.", ConfigError)
    return from_vta_json(text, path) if is_vta_json(text) else _from_yaml(text, path)


def _from_yaml(text: str, path: Path) -> HardwareConfig:
    file = YamlFile(path, text, ConfigError)
    if not isinstance(file.root, yaml.MappingNode):
        raise ConfigError(
            f"The content of {path} must be keys with values such as 'batch: 1', not "
            f"{'empty' if file.root is None else file.shown(file.root)}. Write one parameter on each line.",
            file=path,
            line=1,
        )
    lines: dict[str, int] = {}
    values = _parameters(file, file.root, lines)
    for key in REQUIRED_KEYS:
        if key not in values:
            raise ConfigError(
                f"The keys of {path} must include {key}, and do not. A machine requires {', '.join(REQUIRED_KEYS)}.",
                file=path,
            )
    try:
        return HardwareConfig.from_dict({"name": path.stem} | values)
    except ConfigError as error:
        fault = error.fault
        assert fault is not None, "a machine must be refused for one of its keys"
        file.refuse(lines.get(fault.key), fault)


def _parameters(file: YamlFile, node: yaml.MappingNode, lines: dict[str, int], section: str = "") -> dict[str, Any]:
    """The keys of the file or of a section, checked to be known and unique; records their lines in ``lines``."""
    values: dict[str, Any] = {}
    for key, key_node, value_node in file.pairs(node):
        line = line_of(key_node)
        dotted = f"{section}.{key}" if section else key
        fault = unknown_key(dotted)
        if fault is None and not section and "." in key:
            outer, _, parameter = key.partition(".")
            fault = replace(unknown(key, TOP_LEVEL_KEYS), remedy=f"Write {parameter!r} indented under '{outer}:'.")
        if fault is not None:
            file.refuse(line, fault)
        if dotted in lines:
            raise ConfigError(
                f"Key {dotted} of {file.path}, line {line}, must occur once, not again after line {lines[dotted]}. "
                "Remove one of the two.",
                fault=KeyViolation(dotted, dotted, "", ""),
                file=file.path,
                line=line,
            )
        lines[dotted] = line
        if dotted not in SECTIONS:
            values[key] = file.value(value_node)
        elif isinstance(value_node, yaml.MappingNode):
            values[key] = _parameters(file, value_node, lines, key)
        else:
            contract = f"keys with values, indented, not {file.shown(value_node)}"
            file.refuse(line, KeyViolation(key, key, contract, f"Write one parameter on each line under '{key}:'."))
    return values


def config_to_yaml(config: HardwareConfig) -> str:
    """YAML text that ``load_config`` reads back as an equal machine."""
    # JSON scalars are valid YAML; PyYAML alone would write tuples and long names in its own notation.
    lines = []
    for key, value in config.to_dict().items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines.extend(f"  {inner}: {json.dumps(number)}" for inner, number in value.items())
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"
