"""Buffers of independent stages are spread over a scratchpad: each takes the least recently used addresses."""

import lathe as lt
from lathe.isa import Load, MemoryType
from lathe.scheduler.allocation import allocation

LATHE16 = lt.load_config("lathe16").with_(**{"memory.latency": 0, "memory.bus_bits": 128})


def products(number: int) -> tuple[list[lt.Tensor], list[lt.Tensor]]:
    """Independent GEMMs of 16×16 by 16×16, and their inputs."""
    outputs, inputs = [], []
    for n in range(number):
        A, B = (lt.placeholder((16, 16), "int8", name=f"{name}{n}") for name in "AB")
        outputs.append(lt.requantise(lt.matmul(A, B, transpose_b=True, name=f"C{n}"), 6, name=f"D{n}"))
        inputs += [A, B]
    return outputs, inputs


def load_addresses(program: lt.Program, memory: MemoryType) -> list[int]:
    loads = (each for each in program.instructions if isinstance(each, Load))
    return [each.sram_base for each in loads if each.memory_type == memory]


def test_independent_gemms_overlap(monkeypatch):
    outputs, inputs = products(8)
    program = lt.build(outputs, [*inputs, *outputs], LATHE16, check=True)
    assert load_addresses(program, MemoryType.INP) == [32 * n for n in range(8)]  # two slots each
    monkeypatch.setattr(allocation, "_spread", lambda *_, **__: None)
    before = lt.build(outputs, [*inputs, *outputs], LATHE16)
    assert load_addresses(before, MemoryType.INP) == [0] * 8
    cycles = [lt.simulate(each, timing_only=True).cycles for each in (program, before)]
    assert cycles[0] < 0.75 * cycles[1]


def test_dependent_layers_share_addresses_and_micro_ops():
    data = lt.placeholder((1, 6, 6, 16), "int8", name="data")
    last, inputs = data, [data]
    for n in range(3):
        weights = lt.placeholder((16, 3, 3, 16), "int8", name=f"weights{n}")
        last = lt.requantise(lt.conv2d(last, weights, padding=1, name=f"conv{n}"), 7, name=f"layer{n}")
        inputs.append(weights)
    program = lt.build(last, [*inputs, last], LATHE16, check=True)
    assert 0 in load_addresses(program, MemoryType.INP)
    assert max(load_addresses(program, MemoryType.INP)) < 2 * 8 * 8  # one image with its border, and space for another


def test_if_they_do_not_fit_disjointly_the_oldest_addresses_are_reused():
    small = LATHE16.with_(inp_buffer_bytes=16 * 64)
    outputs, inputs = products(8)
    program = lt.build(outputs, [*inputs, *outputs], small, check=True)
    assert load_addresses(program, MemoryType.INP) == [0, 32] * 4
