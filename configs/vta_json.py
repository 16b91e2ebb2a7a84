"""Reader of VTA's own machine description: a flat JSON object with ``LOG_…`` keys, as in its ``config/*.json`` files.

Interpreted as by VTA's ``pkg_config.py`` (apache/tvm-vta): sizes are base-2 logarithms, widths in bits, buffers in
bytes; the output's width and buffer size follow from the other keys, and the bus width from the board.
"""

import json
import re
from pathlib import Path
from typing import Any

from lathe.configs.errors import ConfigError, KeyViolation
from lathe.configs.hardware_config import HardwareConfig
from lathe.configs.memory import MemoryConfig
from lathe.configs.validate_config import nearest

_REQUIRED = (
    "LOG_INP_WIDTH",
    "LOG_WGT_WIDTH",
    "LOG_ACC_WIDTH",
    "LOG_BATCH",
    "LOG_UOP_BUFF_SIZE",
    "LOG_INP_BUFF_SIZE",
    "LOG_WGT_BUFF_SIZE",
    "LOG_ACC_BUFF_SIZE",
)
_DERIVED = ("LOG_BLOCK", "LOG_BLOCK_IN", "LOG_BLOCK_OUT", "LOG_OUT_WIDTH", "LOG_OUT_BUFF_SIZE", "LOG_BUS_WIDTH")
# Facts about the board and VTA's tools that do not affect a HardwareConfig.
_IGNORED = ("TARGET", "HW_VER", "HW_FREQ", "HW_CLK_TARGET")
_KNOWN = (*_REQUIRED, *_DERIVED, *_IGNORED)

_LOG_BUS_WIDTH = 6
# Boards with a wider memory interface than VTA's default.
_LOG_BUS_WIDTH_OF_TARGET = {"ultra96": 7, "zcu104": 7}

# VTA's key for each of Lathe's, to name it in errors.
_ORIGIN = {
    "inp_bits": "LOG_INP_WIDTH",
    "wgt_bits": "LOG_WGT_WIDTH",
    "acc_bits": "LOG_ACC_WIDTH",
    "out_bits": "LOG_OUT_WIDTH",
    "batch": "LOG_BATCH",
    "uop_buffer_bytes": "LOG_UOP_BUFF_SIZE",
    "inp_buffer_bytes": "LOG_INP_BUFF_SIZE",
    "wgt_buffer_bytes": "LOG_WGT_BUFF_SIZE",
    "acc_buffer_bytes": "LOG_ACC_BUFF_SIZE",
    "memory.bus_bits": "LOG_BUS_WIDTH",
}

# 2^32 bytes is beyond every DRAM address; the limit also keeps a typing error from making a number of a million digits.
_MOST = 32


def is_vta_json(text: str) -> bool:
    """Whether a file's text is a JSON object with VTA's keys rather than YAML."""
    return text.lstrip().startswith("{") and re.search(r'"(LOG_\w+|HW_VER|TARGET)"\s*:', text) is not None


def from_vta_json(text: str, path: Path) -> HardwareConfig:
    """The machine that a JSON file of VTA's describes, named after the file.

    Raises :class:`ConfigError` for broken JSON, unknown or missing keys, and values that are not allowed.
    """
    values = _parse(text, path)
    for key, value in values.items():
        if key not in _KNOWN:
            guess = nearest(key, [known.lower() for known in _KNOWN]).upper().replace("DID YOU MEAN", "Did you mean")
            raise _refusal(path, text, key, "A key", f"one of {', '.join(_KNOWN)}, not {key!r}", guess or "Remove it.")
        if key not in _IGNORED and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST):
            contract = f"the base-2 logarithm of a size, an integer from 0 to {_MOST}, not {value!r}"
            raise _refusal(path, text, key, key, contract, "Correct the number.")
    for key in _REQUIRED:
        if key not in values:
            raise ConfigError(
                f"The keys of {path} must include {key}, and do not. "
                f"VTA's keys are {', '.join(_REQUIRED)} and LOG_BLOCK or LOG_BLOCK_IN with LOG_BLOCK_OUT.",
                file=path,
            )
    log_in, log_out = _blocks(values, text, path)
    out_width = values.get("LOG_OUT_WIDTH", values["LOG_INP_WIDTH"])
    out_size = values["LOG_ACC_BUFF_SIZE"] + out_width - values["LOG_ACC_WIDTH"]
    if values.get("LOG_OUT_BUFF_SIZE", out_size) != out_size:
        contract = f"LOG_ACC_BUFF_SIZE + LOG_OUT_WIDTH - LOG_ACC_WIDTH ({out_size}), not {values['LOG_OUT_BUFF_SIZE']}"
        remedy = "The output buffer holds the low bits of the accumulator; leave the key out."
        raise _refusal(path, text, "LOG_OUT_BUFF_SIZE", "LOG_OUT_BUFF_SIZE", contract, remedy)
    log_bus = values.get("LOG_BUS_WIDTH", _LOG_BUS_WIDTH_OF_TARGET.get(str(values.get("TARGET")), _LOG_BUS_WIDTH))
    try:
        return HardwareConfig(
            name=path.stem,
            batch=1 << values["LOG_BATCH"],
            block_in=1 << log_in,
            block_out=1 << log_out,
            inp_bits=1 << values["LOG_INP_WIDTH"],
            wgt_bits=1 << values["LOG_WGT_WIDTH"],
            acc_bits=1 << values["LOG_ACC_WIDTH"],
            out_bits=1 << out_width,
            uop_buffer_bytes=1 << values["LOG_UOP_BUFF_SIZE"],
            inp_buffer_bytes=1 << values["LOG_INP_BUFF_SIZE"],
            wgt_buffer_bytes=1 << values["LOG_WGT_BUFF_SIZE"],
            acc_buffer_bytes=1 << values["LOG_ACC_BUFF_SIZE"],
            memory=MemoryConfig(bus_bits=1 << log_bus),
        )
    except ConfigError as error:
        fault = error.fault
        assert fault is not None, "a machine must be refused for one of its keys"
        key = _ORIGIN.get(fault.key, fault.key)
        thing = (
            f"{fault.key} (2 to the power of {key})" if fault.thing == fault.key and key != fault.key else fault.thing
        )
        raise _refusal(path, text, key, thing, fault.contract, fault.remedy) from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise _refusal(path, text, key, f"Key {key}", "written once, not twice", "Remove one of the two.")
            values[key] = value
        return values

    try:
        parsed: dict[str, Any] = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ConfigError(
            f"The text of {path} must be a flat JSON object, and nests too deeply. Write one number for each key.",
            file=path,
        ) from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"The text of {path}, line {error.lineno}, must be JSON, and is not: {error.msg}. Correct the line.",
            file=path,
            line=error.lineno,
        ) from None
    return parsed


def _blocks(values: dict[str, Any], text: str, path: Path) -> tuple[int, int]:
    """log2 of block_in and of block_out, which VTA gives as one key or as two."""
    block: Any = values.get("LOG_BLOCK")
    logs: list[int] = []
    for key in ("LOG_BLOCK_IN", "LOG_BLOCK_OUT"):
        if key not in values and block is None:
            raise ConfigError(
                f"The keys of {path} must include LOG_BLOCK, or {key}, and do not. Add one of them.", file=path
            )
        if block is not None and values.get(key, block) != block:
            raise _refusal(path, text, key, key, f"LOG_BLOCK ({block}), not {values[key]}", "Leave one of the two out.")
        logs.append(values.get(key, block))
    return logs[0], logs[1]


def _refusal(path: Path, text: str, key: str, thing: str, contract: str, remedy: str) -> ConfigError:
    line = next((n for n, row in enumerate(text.splitlines(), start=1) if f'"{key}"' in row), None)
    return ConfigError.at(str(path), KeyViolation(key, thing, contract, remedy), file=path, line=line)
