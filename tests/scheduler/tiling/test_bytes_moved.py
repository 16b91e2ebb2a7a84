"""The bytes that the default schedules move: the counters, against arithmetic on their printed tile loops."""

import re
from collections import Counter
from math import prod

import pytest

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import conv2d, matmul, requantise
from lathe.scheduler import build, lower
from lathe.sim import Result, simulate_program

MACHINES = {name: load_config(name) for name in ("vta", "wide", "batch4", "tiny")}
PRINTED = re.compile(
    r"(?P<rule>dma|gemm|reset|alu)\((?P<loops>[^)]*)\): (?P<target>[\w.]+)\[.*?(?:, zeros around (?P<zeros>.*))?$"
)


def multiplied(size: int) -> list[Tensor]:
    A, B = placeholder((size, size), "int8", "A"), placeholder((size, size), "int8", "B")
    return [A, B, requantise(matmul(A, B, name="C"), 8, name="D")]


def convolved(size: int, channels: int) -> list[Tensor]:
    A = placeholder((1, size, size, channels), "int8", "A")
    W = placeholder((channels, 3, 3, channels), "int8", "W")
    return [A, W, requantise(conv2d(A, W, padding=1, name="C"), 8, name="D")]


def values_moved(text: str) -> Counter[tuple[str, str]]:
    """Points of all chunks by rule and tensor, without the padding of loads: enclosing loops times loops of chunks."""
    moved: Counter[tuple[str, str]] = Counter()
    trips: list[int] = []
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        del trips[depth:]
        loop = re.match(r" *for \S+ in (\d+)\.\.(\d+):", line)
        if loop:
            trips.append(int(loop[2]) - int(loop[1]))
            continue
        chunk = PRINTED.match(line.lstrip())
        if chunk is None:
            assert re.match(r" *(buffer|free) ", line), f"{line!r} is no chunk"
            continue
        extents = {name: int(extent) for name, extent in re.findall(r"(\S+) in 0\.\.(\d+)", chunk["loops"])}
        for name, before, after in re.findall(r"(\S+) \((\d+), (\d+)\)", chunk["zeros"] or ""):
            extents[name] -= int(before) + int(after)
        moved[chunk["rule"], chunk["target"]] += prod(trips) * prod(extents.values())
    return moved


def run(tensors: list[Tensor], config: HardwareConfig) -> tuple[Result, Counter[tuple[str, str]]]:
    program = build(tensors[-1], tensors, config)
    return simulate_program(program, {}, timing_only=True), values_moved(lower(tensors[-1], tensors, config, "chunks"))


@pytest.mark.parametrize("name", MACHINES)
def test_bytes_of_a_matmul_are_those_of_its_tiles(name):
    config = MACHINES[name]
    result, moved = run(multiplied(128 if name == "tiny" else 256), config)
    check(result, moved, config, {"inp": "A.inp", "wgt": "B.wgt", "out": "D", "product": "C"})


@pytest.mark.parametrize(("name", "size", "channels"), [("vta", 56, 64), ("wide", 56, 64), ("tiny", 12, 16)])
def test_bytes_of_a_convolution_are_those_of_its_tiles_and_their_halos(name, size, channels):
    config = MACHINES[name]
    result, moved = run(convolved(size, channels), config)
    on_data = (3 * size - 2) ** 2 / (3 * size) ** 2
    check(result, moved, config, {"inp": "C.pad", "wgt": "W.wgt", "out": "D", "product": "C"}, on_data)


def check(
    result: Result, moved: Counter[tuple[str, str]], config: HardwareConfig, names: dict[str, str], on_data: float = 1
) -> None:
    counters = result.counters
    assert counters.bytes_read["inp"] == moved["dma", names["inp"]]
    assert counters.bytes_read["wgt"] == moved["dma", names["wgt"]]
    assert counters.bytes_written["out"] == moved["dma", names["out"]]
    assert counters.bytes_read["acc"] == counters.bytes_read["acc8"] == 0
    assert counters.bytes_read["instructions"] == 16 * len(result.program.instructions)
    assert counters.bytes_read["uop"] == result.program.segment("uop").nbytes, "each micro-op once"
    of_one = config.batch * config.block_in * config.block_out
    assert counters.gemm_operations * of_one == round(moved["gemm", names["product"]] * on_data)
    assert counters.reset_operations * config.batch * config.block_out == moved["reset", names["product"]]


def test_loads_of_the_default_schedules_on_vta_are_close_to_the_lower_bound():
    """The lower bound is each value once; docs/schedules.md explains the excess."""
    least = 256 * 256
    product, _ = run(multiplied(256), MACHINES["vta"])
    assert product.counters.bytes_read["wgt"] == least
    assert product.counters.bytes_read["inp"] <= 4 * least
    convolution, _ = run(convolved(56, 64), MACHINES["vta"])
    assert convolution.counters.bytes_read["wgt"] == 64 * 3 * 3 * 64
    assert convolution.counters.bytes_read["inp"] <= 2.3 * 56 * 56 * 64
