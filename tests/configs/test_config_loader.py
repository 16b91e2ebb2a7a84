"""Configurations from files: YAML of Lathe's and JSON of VTA's, and every way in which they can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from lathe.configs import ConfigError, config_to_yaml, load_config, shipped_configs

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


def message_of(path: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value)


def test_file_with_the_required_keys_is_vta_under_the_files_name(tmp_path: Path) -> None:
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
    assert message_of("vtaa") == (
        f"The configuration must be one of {SHIPPED}, or the path of a YAML or JSON file, "
        "not 'vtaa'. "
        "Did you mean 'vta'?"
    )


def test_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert message_of(path) == (
        f"The configuration file {path} must exist, and does not. "
        f"Correct the path, or give the name of a shipped machine: {SHIPPED}."
    )


def test_a_name_that_no_terminal_shows_is_quoted() -> None:
    assert message_of("a\0.yaml") == (
        r"The configuration file 'a\x00.yaml' must exist, and does not. Correct the path, or give the name of a "
        f"shipped machine: {SHIPPED}."
    )


def test_directory_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    assert message_of(tmp_path) == (
        f"The configuration file {tmp_path} must be readable, and is not: Is a directory. "
        "Correct the path or its rights."
    )
    path = tmp_path / "m.yaml"
    path.write_bytes(b"batch: \xff\n")
    assert message_of(path) == (
        f"The configuration file {path} must be UTF-8 text, not 0xff at byte 7. Save it as UTF-8."
    )


KEYS = (
    "name, batch, block_in, block_out, uop_buffer_bytes, inp_buffer_bytes, wgt_buffer_bytes, acc_buffer_bytes, "
    "par_buffer_bytes, lut_buffer_bytes, "
    "inp_bits, wgt_bits, acc_bits, out_bits, memory, timing, extensions"
)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (GOOD.replace("batch: 1", "batch: 3"), 1,
            "batch of {path}, line 1, must be a power of two, not 3. Write an integer such as 1, 2, 4, 8 or 16."),
        ("# a comment\n" + GOOD.replace("block_in: 16", "block_in: '16'"), 3,
            "block_in of {path}, line 3, must be a power of two, not '16'. Write an integer such as 1, 2, 4, 8 or 16."),
        (GOOD + "blok_in: 16\n", 8,
            f"A key of {{path}}, line 8, must be one of {KEYS}, not 'blok_in'. Did you mean 'block_in'?"),
        (GOOD + "zzz: 16\n", 8,
            f"A key of {{path}}, line 8, must be one of {KEYS}, not 'zzz'. Remove it."),
        (GOOD + "memory:\n  bus_bits: 64\n  latncy: 1\n", 10,
            "A key of memory of {path}, line 10, must be one of bus_bits, latency, burst_beats, outstanding_reads, "
            "cycles_per_beat, shared_bandwidth, not 'latncy'. Did you mean 'latency'?"),
        (GOOD + "memory:\n  bus_bits: 65\n", 9,
            "memory.bus_bits of {path}, line 9, must be one of 8, 16, 32, 64, 128, 256, 512, 1024, not 65. AXI4 has "
            "no other widths."),
        (GOOD + "memory.latency: 3\n", 8,
            f"A key of {{path}}, line 8, must be one of {KEYS}, not 'memory.latency'. "
            "Write 'latency' indented under 'memory:'."),
        (GOOD + "batch: 2\n", 8,
            "Key batch of {path}, line 8, must stand once, not again after line 1. Remove one of the two."),
        (GOOD + "memory: 64\n", 8,
            "memory of {path}, line 8, must be keys with values, indented, not 64. Write one parameter on each line "
            "under 'memory:'."),
        (GOOD + "memory: [{latency: 3}]\n", 8,
            "memory of {path}, line 8, must be keys with values, indented, not [{{'latency': 3}}]. Write one "
            "parameter on each line under 'memory:'."),
        (GOOD + "name: 2020-13-45\n", 8,
            "The text of {path}, line 8, must be YAML, and is not: '2020-13-45' is no timestamp. Correct the line."),
        (GOOD + "extensions: pad_value\n", 8,
            "extensions of {path}, line 8, must be a list of names, not 'pad_value'. Write it in brackets."),
        (GOOD + "extensions: exp\n", 8,
            "extensions of {path}, line 8, must be a list of names, not 'exp'. Write it in brackets."),
        (GOOD.replace("262144", "524288"), 6,
            "field wgt_factor_in of the gemm encoding of {path}, line 6, must be within the 128 bits it has, not 2 "
            "bits over. The memories' index widths are uop 13, inp 11, wgt 11, acc 11 bits; make a buffer smaller "
            "or batch or a block larger."),
        (GOOD + "memory: {latency: [1\n", 9,
            "The text of {path}, line 9, must be YAML, and is not: expected ',' or ']', but got '<stream end>'. "
            "Correct the line."),
        ("- 1\n- 2\n", 1,
            "The content of {path} must be keys with values such as 'batch: 1', not [1, 2]. Write one parameter on "
            "each line."),
        ("", 1,
            "The content of {path} must be keys with values such as 'batch: 1', not empty. Write one parameter on "
            "each line."),
        ("batch: 1\n", None,
            "The keys of {path} must include block_in, and do not. A machine needs batch, block_in, block_out, "
            "uop_buffer_bytes, inp_buffer_bytes, wgt_buffer_bytes, acc_buffer_bytes."),
    ],
)  # fmt: skip
def test_wrong_yaml_is_refused_by_file_line_and_key(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == message.format(path=path)
    assert (caught.value.file, caught.value.line) == (path, line)


def test_json_of_vta_is_read_as_it_is(tmp_path: Path) -> None:
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
def test_other_keys_of_vta_mean_what_they_mean_there(
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
    ("changes", "message"),
    [
        ({"LOG_BLOK": 4},
            "A key of {path}, line 13, must be one of LOG_INP_WIDTH, LOG_WGT_WIDTH, LOG_ACC_WIDTH, LOG_BATCH, "
            "LOG_UOP_BUFF_SIZE, LOG_INP_BUFF_SIZE, LOG_WGT_BUFF_SIZE, LOG_ACC_BUFF_SIZE, LOG_BLOCK, LOG_BLOCK_IN, "
            "LOG_BLOCK_OUT, LOG_OUT_WIDTH, LOG_OUT_BUFF_SIZE, LOG_BUS_WIDTH, TARGET, HW_VER, HW_FREQ, "
            "HW_CLK_TARGET, not 'LOG_BLOK'. Did you mean 'LOG_BLOCK'?"),
        ({"LOG_INP_WIDTH": 2},
            "inp_bits (2 to the power of LOG_INP_WIDTH) of {path}, line 4, must be 8, not 4. Other element widths "
            "are not supported yet."),
        ({"LOG_BATCH": "0"},
            "LOG_BATCH of {path}, line 7, must be the base-2 logarithm of a size, an integer from 0 to 32, not '0'. "
            "Correct the number."),
        ({"LOG_BLOCK_IN": 5},
            "LOG_BLOCK_IN of {path}, line 13, must be LOG_BLOCK (4), not 5. Leave one of the two out."),
        ({"LOG_OUT_BUFF_SIZE": 14},
            "LOG_OUT_BUFF_SIZE of {path}, line 13, must be LOG_ACC_BUFF_SIZE + LOG_OUT_WIDTH - LOG_ACC_WIDTH (15), "
            "not 14. The output buffer holds the low bits of the accumulator; leave the key out."),
        ({"LOG_WGT_BUFF_SIZE": 20},
            "field wgt_factor_in of the gemm encoding of {path}, line 11, must be within the 128 bits it has, not 4 "
            "bits over. The memories' index widths are uop 13, inp 11, wgt 12, acc 11 bits; make a buffer smaller "
            "or batch or a block larger."),
    ],
)  # fmt: skip
def test_wrong_json_of_vta_is_refused_by_file_line_and_key(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, json.dumps(VTA_JSON | changes, indent=2), "board.json")
    assert message_of(path) == message.format(path=path)


def test_json_of_vta_that_lacks_a_key_or_is_broken_is_refused(tmp_path: Path) -> None:
    values = {key: value for key, value in VTA_JSON.items() if key != "LOG_BLOCK"}
    path = written(tmp_path, json.dumps(values), "board.json")
    assert message_of(path) == (
        f"The keys of {path} must include LOG_BLOCK, or LOG_BLOCK_IN, and do not. Add one of them."
    )
    path = written(tmp_path, '{\n"LOG_BATCH": 1,\n"LOG_BATCH": 2}', "board.json")
    assert message_of(path) == (
        f"Key LOG_BATCH of {path}, line 2, must be written once, not twice. Remove one of the two."
    )
    path = written(tmp_path, '{\n"LOG_BATCH": 1,,', "board.json")
    assert message_of(path) == (
        f"The text of {path}, line 2, must be JSON, and is not: "
        "Expecting property name enclosed in double quotes. Correct the line."
    )
