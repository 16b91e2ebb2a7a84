"""Configurations from files: Lathe's YAML and VTA's JSON, and every kind of mistake in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from error_checks import raises

from lathe.configs import ConfigError, config_to_yaml, load_config, shipped_configs
from lathe.configs.validate_config import REQUIRED_KEYS, TOP_LEVEL_KEYS, section_keys

SHIPPED = ", ".join(shipped_configs())

GOOD = """\
batch: 1
block_in: 16
block_out: 16
uop_buffer_bytes: 32768
inp_buffer_bytes: 32768
wgt_buffer_bytes: 262144
acc_buffer_bytes: 131072
"""

# VTA's config/vta_config.json, value by value.
VTA_JSON = {
    "TARGET": "sim",
    "HW_VER": "0.0.2",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}


def written(tmp_path: Path, text: str, name: str = "m.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path | str, *mentions: object) -> ConfigError:
    return raises(ConfigError, load_config, path, mentions=mentions)


def test_file_with_the_required_keys_gives_vta_named_after_the_file(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, GOOD)) == load_config("vta").with_(name="m")


def test_sections_and_extensions_are_read(tmp_path: Path) -> None:
    text = (
        GOOD
        + "name: mine\nmemory:\n  latency: 0\n  shared_bandwidth: false\ntiming: {alu_pipeline: 3}\nextensions: []\n"
    )
    config = load_config(str(written(tmp_path, text)))
    assert config.name == "mine"
    assert (config.memory.latency, config.memory.shared_bandwidth, config.timing.alu_pipeline) == (0, False, 3)


@pytest.mark.parametrize("name", shipped_configs())
def test_machine_written_as_yaml_is_read_back(tmp_path: Path, name: str) -> None:
    config = load_config(name)
    assert load_config(written(tmp_path, config_to_yaml(config))) == config


def test_unknown_name_lists_the_shipped_ones_and_the_nearest() -> None:
    refusal("vtaa", SHIPPED, "not 'vtaa'", "mean 'vta'")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    refusal(tmp_path / "none.yaml", tmp_path / "none.yaml", "must exist", SHIPPED)


def test_an_unprintable_name_is_quoted() -> None:
    refusal("a\0.yaml", r"a\x00.yaml", "must exist", SHIPPED)


def test_directory_and_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    refusal(tmp_path, tmp_path, "Is a directory")
    path = tmp_path / "m.yaml"
    path.write_bytes(b"batch: \xff\n")
    refusal(path, path, "UTF-8", "0xff at byte 7")


KEYS = ", ".join(TOP_LEVEL_KEYS)


@pytest.mark.parametrize(
    ("text", "line", "mentions"),
    [
        (GOOD.replace("batch: 1", "batch: 3"), 1, ("batch", "power of two", "not 3")),
        ("# a comment\n" + GOOD.replace("block_in: 16", "block_in: '16'"), 3, ("block_in", "power of two", "not '16")),
        (GOOD + "blok_in: 16\n", 8, (KEYS, "not 'blok_in", "mean 'block_in")),
        (GOOD + "zzz: 16\n", 8, (KEYS, "not 'zzz", "Remove it")),
        (GOOD + "memory:\n  bus_bits: 64\n  latncy: 1\n", 10,
            ("memory", ", ".join(section_keys("memory")), "not 'latncy", "mean 'latency")),
        (GOOD + "memory:\n  bus_bits: 65\n", 9, ("memory.bus_bits", "8, 16, 32, 64", "not 65", "AXI4")),
        (GOOD + "memory.latency: 3\n", 8, (KEYS, "not 'memory.latency", "Write 'latency' indented under 'memory:'.")),
        (GOOD + "batch: 2\n", 8, ("batch", "line 1")),
        (GOOD + "memory: 64\n", 8, ("memory", "not 64", "under 'memory:'.")),
        (GOOD + "memory: [{latency: 3}]\n", 8, ("memory", "not [{'latency': 3}].", "under 'memory:'.")),
        (GOOD + "name: 2020-13-45\n", 8, ("YAML", "2020-13-45", "timestamp")),
        (GOOD + "extensions: pad_value\n", 8, ("extensions", "a list of names", "not 'pad_value", "brackets")),
        (GOOD + "extensions: exp\n", 8, ("extensions", "a list of names", "not 'exp", "brackets")),
        (GOOD.replace("262144", "524288"), 6,
            ("wgt_factor_in", "gemm encoding", "128 bits", "2 bits", "uop 13, inp 11, wgt 11, acc 11 bits")),
        (GOOD + "memory: {latency: [1\n", 9, ("YAML", "expected ',' or ']', but got '<stream end>'.")),
        ("- 1\n- 2\n", 1, ("keys with values", "not [1, 2].")),
        ("", 1, ("keys with values", "not empty")),
        ("batch: 1\n", None, ("block_in", ", ".join(REQUIRED_KEYS))),
    ],
)  # fmt: skip
def test_wrong_yaml_is_refused_by_file_line_and_key(
    tmp_path: Path, text: str, line: int | None, mentions: tuple[str, ...]
) -> None:
    path = written(tmp_path, text)
    error = refusal(path, path, *mentions)
    assert (error.file, error.line) == (path, line)


def test_json_of_vta_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(VTA_JSON, indent="\t"), "vta.json")
    config = load_config(path)
    vta = load_config("vta")
    assert config == vta


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"LOG_BATCH": 2}, "batch", 4),
        ({"LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 4}, "block_out", 16),
        ({"LOG_OUT_WIDTH": 3, "LOG_OUT_BUFF_SIZE": 15}, "out_bits", 8),
        ({"LOG_BUS_WIDTH": 5}, "bus_bytes", 4),
        ({"TARGET": "ultra96"}, "bus_bytes", 16),
        ({"HW_FREQ": 100, "HW_CLK_TARGET": 8}, "bus_bytes", 8),
    ],
)
def test_other_keys_of_vta_are_interpreted_as_by_vta(
    tmp_path: Path, changes: dict[str, Any], key: str, value: int
) -> None:
    path = written(tmp_path, json.dumps(VTA_JSON | changes, indent=2), "board.json")
    assert getattr(load_config(path), key) == value


def test_blocks_of_vta_may_differ(tmp_path: Path) -> None:
    values = {key: value for key, value in VTA_JSON.items() if key != "LOG_BLOCK"}
    path = written(tmp_path, json.dumps(values | {"LOG_BLOCK_IN": 3, "LOG_BLOCK_OUT": 5}), "board.json")
    config = load_config(path)
    assert (config.block_in, config.block_out) == (8, 32)


@pytest.mark.parametrize(
    ("changes", "line", "mentions"),
    [
        ({"LOG_BLOK": 4}, 13, ("LOG_BUS_WIDTH, TARGET, HW_VER", "not 'LOG_BLOK", "mean 'LOG_BLOCK")),
        ({"LOG_INP_WIDTH": 2}, 4, ("inp_bits", "LOG_INP_WIDTH", 8, "not 4")),
        ({"LOG_BATCH": "0"}, 7, ("LOG_BATCH", 0, 32, "not '0")),
        ({"LOG_BLOCK_IN": 5}, 13, ("LOG_BLOCK_IN", "LOG_BLOCK (4", "not 5")),
        ({"LOG_OUT_BUFF_SIZE": 14}, 13,
            ("LOG_OUT_BUFF_SIZE", "LOG_ACC_BUFF_SIZE + LOG_OUT_WIDTH - LOG_ACC_WIDTH (15", "not 14")),
        ({"LOG_WGT_BUFF_SIZE": 20}, 11,
            ("wgt_factor_in", "gemm encoding", "128 bits", "4 bits", "uop 13, inp 11, wgt 12, acc 11 bits")),
    ],
)  # fmt: skip
def test_wrong_json_of_vta_is_refused_by_file_line_and_key(
    tmp_path: Path, changes: dict[str, Any], line: int, mentions: tuple[object, ...]
) -> None:
    path = written(tmp_path, json.dumps(VTA_JSON | changes, indent=2), "board.json")
    assert refusal(path, path, f"line {line}", *mentions).line == line


def test_json_of_vta_that_lacks_a_key_or_is_broken_is_refused(tmp_path: Path) -> None:
    values = {key: value for key, value in VTA_JSON.items() if key != "LOG_BLOCK"}
    path = written(tmp_path, json.dumps(values), "board.json")
    refusal(path, path, "LOG_BLOCK", "LOG_BLOCK_IN")
    path = written(tmp_path, '{\n"LOG_BATCH": 1,\n"LOG_BATCH": 2}', "board.json")
    refusal(path, path, "LOG_BATCH", "line 2", "twice")
    path = written(tmp_path, '{\n"LOG_BATCH": 1,,', "board.json")
    refusal(path, path, "line 2", "JSON", "Expecting property name enclosed in double quotes")
