"""Machines: numbers derived from their parameters, and parameters that are refused."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from error_checks import raises

from lathe.configs import ConfigError, HardwareConfig, MemoryConfig, TimingConfig, load_config, shipped_configs
from lathe.configs.encoding import pack_fields
from lathe.configs.extensions import EXTENSIONS
from lathe.configs.instructions import FORMATS
from lathe.configs.validate_config import TOP_LEVEL_KEYS, section_keys

VTA = load_config("vta")


def test_vta_has_the_documented_depths_and_vector_sizes() -> None:
    assert (VTA.uop_depth, VTA.inp_depth, VTA.wgt_depth, VTA.acc_depth, VTA.out_depth) == (8192, 2048, 1024, 2048, 2048)
    assert (VTA.uop_index_bits, VTA.inp_index_bits, VTA.wgt_index_bits, VTA.acc_index_bits) == (13, 11, 10, 11)
    assert (VTA.uop_element_bytes, VTA.inp_element_bytes, VTA.wgt_element_bytes) == (4, 16, 256)
    assert (VTA.acc_element_bytes, VTA.out_element_bytes, VTA.acc8_element_bytes) == (64, 16, 16)
    assert VTA.bus_bytes == 8
    assert (VTA.memory.latency, VTA.memory.burst_beats, VTA.memory.outstanding_reads) == (32, 256, 8)
    assert VTA.timing.command_queue_depth == 512


def test_parameters_and_tables_have_the_depths_and_vector_sizes_of_their_memories() -> None:
    cfg = VTA.with_(
        batch=2,
        extensions=("rescale", "rescale_add", "lookup"),
        par_buffer_bytes=32768,
        lut_buffer_bytes=16384,
    )
    assert (cfg.par_element_bytes, cfg.par_depth, cfg.par_index_bits) == (128, 256, 8)
    assert (cfg.lut_element_bytes, cfg.lut_depth, cfg.lut_index_bits, cfg.table_bits) == (16, 1024, 10, 2)
    assert cfg.with_(lut_buffer_bytes=4096).table_bits == 0
    assert (VTA.par_depth, VTA.par_index_bits, VTA.lut_depth, VTA.lut_index_bits, VTA.table_bits) == (0, 0, 0, 0, 0)
    narrow = load_config("tiny").with_(block_in=1, extensions=("rescale",), par_buffer_bytes=1024)
    assert narrow.address_bits == 33 + 5  # of vectors of 32 bytes
    assert narrow.with_(extensions=(), par_buffer_bytes=0).address_bits == 33 + 4


def test_shipped_machines_are_named_after_their_files() -> None:
    assert {name: load_config(name).name for name in shipped_configs()} == {name: name for name in shipped_configs()}


def test_shipped_machines_are_unchanged() -> None:
    shapes = {
        "batch4": (4, 8, 8, 64),
        "board": (1, 16, 8, 64),
        "lathe16": (1, 16, 16, 64),
        "tiny": (1, 4, 4, 64),
        "vta": (1, 16, 16, 64),
        "wide": (1, 32, 32, 256),
    }
    machines = {name: load_config(name) for name in shapes}
    assert {
        name: (cfg.batch, cfg.block_in, cfg.block_out, cfg.memory.bus_bits) for name, cfg in machines.items()
    } == shapes
    assert {name: cfg.extensions for name, cfg in machines.items() if cfg.extensions} == dict.fromkeys(
        ("board", "lathe16"), tuple(EXTENSIONS)
    )


def test_lathe16_is_vta_with_its_extensions_on() -> None:
    plain = {"extensions": (), "par_buffer_bytes": 0, "lut_buffer_bytes": 0}
    assert load_config("lathe16").with_(name="vta", **plain) == VTA


def test_equal_machines_compare_equal_and_have_equal_hashes() -> None:
    again = HardwareConfig.from_dict(VTA.to_dict())
    assert again == VTA
    assert hash(again) == hash(VTA)
    assert VTA.with_(batch=2) != VTA


def test_with_changes_only_the_given_parameters() -> None:
    changed = VTA.with_(**{"name": "mine", "batch": 2, "memory.latency": 0, "timing.command_queue_depth": 4})
    assert (changed.name, changed.batch, changed.memory.latency, changed.timing.command_queue_depth) == (
        "mine",
        2,
        0,
        4,
    )
    assert changed.with_(**{"name": "vta", "batch": 1, "memory.latency": 32, "timing.command_queue_depth": 512}) == VTA
    assert VTA.with_(**{"memory": MemoryConfig(bus_bits=128), "memory.latency": 5}).memory == MemoryConfig(128, 5)


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"batch": 3}, ("batch", "power of two", 3)),
        ({"block_in": True}, ("block_in", "power of two", True)),
        ({"inp_buffer_bytes": 1000}, ("inp_buffer_bytes", "power of two", 1000, 32768)),
        ({"wgt_bits": 4}, ("wgt_bits", 8, 4)),
        ({"acc_bits": 16}, ("acc_bits", 32, 16)),
        ({"wgt_buffer_bytes": 128}, ("wgt_buffer_bytes", "256 bytes", 128)),
        ({"memory.bus_bits": 48}, ("memory.bus_bits", "8, 16, 32, 64, 128, 256, 512, 1024", 48, "AXI4")),
        ({"memory.latency": -1}, ("memory.latency", 0, 1000000, "not -1")),
        ({"memory.latency": 10**22}, ("memory.latency", 0, 1000000, 10**22)),
        ({"timing.gemm_pipeline": 1_000_001}, ("timing.gemm_pipeline", 1, 1000000, 1000001)),
        ({"memory.burst_beats": 257}, ("memory.burst_beats", 1, 256, 257)),
        ({"memory.shared_bandwidth": 1}, ("memory.shared_bandwidth", "true or false", 1)),
        ({"timing.dma_fifo_beats": 128}, ("timing.dma_fifo_beats", "memory.burst_beats", 256, 128)),
        ({"extensions": ("exp",)}, ("extensions", ", ".join(EXTENSIONS), "exp", "Remove it")),
        ({"extensions": ("pad_values",)}, ("extensions", ", ".join(EXTENSIONS), "not 'pad_values'", "'pad_value'")),
        ({"extensions": ("pad_value", "pad_value")}, ("extensions", "'pad_value' twice")),
        ({"par_buffer_bytes": 3}, ("par_buffer_bytes", "power of two, or 0", 3, 32768)),
        ({"lut_buffer_bytes": False}, ("lut_buffer_bytes", "power of two, or 0", False, 32768)),
        ({"par_buffer_bytes": 1024}, ("par_buffer_bytes", 0, "without the extension 'rescale'", 1024)),
        ({"extensions": ("rescale",)}, ("par_buffer_bytes", "with the extension 'rescale'", "not 0", 32768)),
        ({"extensions": ("rescale_add", "pad_value")}, ("extensions", "not 'rescale_add' alone", "Add 'rescale'")),
        ({"extensions": ("lookup",), "lut_buffer_bytes": 4096}, ("extensions", "not 'lookup' alone", "Add 'rescale'")),
        ({"extensions": ("rescale", "lookup"), "par_buffer_bytes": 1024},
            ("lut_buffer_bytes", "with the extension 'lookup'", "not 0", 32768)),
        ({"extensions": ("rescale",), "par_buffer_bytes": 1024, "lut_buffer_bytes": 4096},
            ("lut_buffer_bytes", 0, "without the extension 'lookup'", 4096)),
        ({"extensions": ("rescale",), "par_buffer_bytes": 64}, ("par_buffer_bytes", "one vector", "128 bytes", 64)),
        ({"extensions": ("rescale", "rescale_add"), "par_buffer_bytes": 128},
            ("par_buffer_bytes", "two vectors", "256 bytes", 128)),
        ({"extensions": ("rescale", "lookup"), "par_buffer_bytes": 128, "lut_buffer_bytes": 2048},
            ("lut_buffer_bytes", "one table", "4096 bytes", 2048)),
        ({"extensions": ("rescale",), "par_buffer_bytes": 1 << 18},
            ("par_buffer_bytes", 131072, "wgt", 1024, 262144, "wgt_buffer_bytes")),
        ({"extensions": ("rescale", "lookup"), "par_buffer_bytes": 1 << 17, "lut_buffer_bytes": 1 << 21},
            ("sram_base", "load encoding", "16 bits", "1 bit", "uop 13, inp 11, wgt 10, acc 11, par 10, lut 17 bits")),
        ({"bach": 1}, (", ".join(TOP_LEVEL_KEYS), "not 'bach'", "mean 'batch'")),
        ({"memory.latncy": 1}, ("memory", ", ".join(section_keys("memory")), "not 'latncy'", "mean 'latency'")),
        ({"wgt_buffer_bytes": 1 << 19},
            ("wgt_factor_in", "gemm encoding", "128 bits", "2 bits", "uop 13, inp 11, wgt 11, acc 11 bits")),
        ({"inp_buffer_bytes": 1 << 9, "wgt_buffer_bytes": 1 << 19},
            ("wgt", "micro-op encoding", "32 bits", "1 bit", "uop 13, inp 5, wgt 11, acc 11 bits")),
        ({"uop_buffer_bytes": 1 << 19, "acc_buffer_bytes": 64, "inp_buffer_bytes": 16, "wgt_buffer_bytes": 256},
            ("sram_base", "load encoding", "16 bits", "1 bit", "uop 17, inp 0, wgt 0, acc 0 bits")),
    ],
)  # fmt: skip
def test_parameters_that_are_not_allowed_are_refused(changes: dict[str, Any], mentions: tuple[object, ...]) -> None:
    raises(ConfigError, VTA.with_, mentions=("machine 'vta", *mentions), **changes)


def test_every_machine_of_vtas_parameter_space_that_fits_is_accepted() -> None:
    """Compare the check with the layout of C structs by a compiler, for every machine of a grid."""
    accepted = refused = 0
    grid = itertools.product(
        (0, 2), (0, 3, 4), (2, 4, 5), (2, 9, 15, 16), (0, 12, 15), (0, 14, 18), (0, 10, 17, 18), (3, 6, 10)
    )
    for log_batch, log_in, log_out, uop, inp, wgt, acc, bus in grid:
        widths = {
            "uop": uop - 2,
            "inp": inp - log_batch - log_in,
            "wgt": wgt - log_in - log_out,
            "acc": acc - 2 - log_batch - log_out,
        }
        fits = min(widths.values()) >= 0 and _fits_as_c_bit_fields(**widths)
        try:
            machine = HardwareConfig(
                "grid",
                1 << log_batch,
                1 << log_in,
                1 << log_out,
                1 << uop,
                1 << inp,
                1 << wgt,
                1 << acc,
                memory=MemoryConfig(bus_bits=1 << bus),
            )
        except ConfigError:
            assert not fits, f"refused, but it fits: {widths}"
            refused += 1
        else:
            assert fits, f"accepted, but it does not fit: {widths}"
            assert (machine.uop_index_bits, machine.acc_index_bits) == (widths["uop"], widths["acc"])
            accepted += 1
    assert accepted > 100
    assert refused > 100


def _fits_as_c_bit_fields(uop: int, inp: int, wgt: int, acc: int) -> bool:
    loops = [3, 1, 1, 1, 1, 1, uop, uop + 1, 14, 14, acc, acc]
    return (
        _words([*loops, inp, inp, wgt, wgt], 64) <= 2
        and _words([*loops, acc, acc, 3, 1, 16], 64) <= 2
        and _words([acc, max(acc, inp), wgt], 32) <= 1
        and max(uop, inp, wgt, acc) <= 16
    )


def _words(widths: list[int], word: int) -> int:
    words, used = 1, 0
    for width in widths:
        if used + width > word:
            words, used = words + 1, 0
        used += width
    return words


def test_no_field_of_a_shipped_machine_crosses_a_word_boundary() -> None:
    for name in shipped_configs():
        for form in FORMATS:
            for placement in pack_fields(form.fields, form.word_bits, load_config(name)):
                if placement.width:
                    last = placement.lsb + placement.width - 1
                    assert placement.lsb // form.word_bits == last // form.word_bits
                    assert last < form.total_bits


def test_vectors_may_be_narrower_or_wider_than_the_bus() -> None:
    narrow = HardwareConfig("narrow", 1, 1, 1, 4, 1, 1, 4, memory=MemoryConfig(bus_bits=1024))
    assert (narrow.inp_element_bytes, narrow.inp_depth, narrow.acc_index_bits, narrow.bus_bytes) == (1, 1, 0, 128)
    wide = HardwareConfig("wide", 16, 64, 64, 1 << 10, 1 << 16, 1 << 18, 1 << 18, memory=MemoryConfig(bus_bits=8))
    assert (wide.wgt_element_bytes, wide.acc_element_bytes, wide.bus_bytes) == (4096, 4096, 1)


def test_sections_must_be_of_their_classes() -> None:
    raises(ConfigError, VTA.with_, memory=64, mentions=("memory", "vta", "MemoryConfig", 64))
    assert VTA.with_(timing=TimingConfig(gemm_pipeline=9)).timing.gemm_pipeline == 9


def test_numpy_integers_become_python_integers() -> None:
    base = load_config("vta")
    machine = base.with_(batch=np.int64(2), **{"memory.latency": np.uint8(7)})
    assert machine == base.with_(batch=2, **{"memory.latency": 7})
    assert json.loads(json.dumps(machine.to_dict())) == machine.to_dict()
    raises(ConfigError, base.with_, batch=np.True_, mentions=("batch", "vta", "np.True_"))
