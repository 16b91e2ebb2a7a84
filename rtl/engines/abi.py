"""The interface between compiled machines and Python: structures and constants, and the C++ header with them."""

from ctypes import POINTER, Array, Structure, c_int64, c_uint64
from enum import IntEnum
from typing import Any

from lathe.configs.memory import PAGE_BYTES
from lathe.rtl.engines.axi_checker import Rule
from lathe.rtl.engines.dram import DECODE_ERROR, LUCK, OKAY, SLAVE_ERROR
from lathe.rtl.engines.launch import FETCH_COLUMNS, UNIT_COLUMNS
from lathe.rtl.ports import INCREMENTING, WRITE_ID
from lathe.rtl.trace_opcodes import OPERATIONS

TRACE_COLUMNS = (*FETCH_COLUMNS, *UNIT_COLUMNS)


class End(IntEnum):
    """How a launch on a compiled machine ends."""

    ENDED = 0
    RESET = 1
    TOO_LONG = 2
    NO_DATA = 3
    BROKEN = 4


class LatheLaunch(Structure):
    """A launch, and the memory on the bus.

    ``memory_end``, ``error_read`` and ``error_write`` (numbers of the read beat and of the write burst to answer with
    an error) and ``reset_at`` are −1 for none. ``stall_seed``: initial state of the random numbers, 0 for no stalls.
    """

    _fields_ = [
        *((name, c_int64) for name in ("count", "memory_end", "error_read", "error_write", "reset_at", "most_cycles")),
        ("stall_seed", c_uint64),
        *((name, c_int64) for name in ("latency", "cycles_per_beat", "shared_bandwidth", "response_latency")),
        ("burst_beats", c_int64),
        ("outstanding_reads", c_int64),
    ]


class LatheCounts(Structure):
    """Counts of a launch.

    ``bursts`` and ``beats`` of reads and writes; ``bytes_read`` by memory type; ``operations`` by their number in the
    trace; ``interleaved``: read beats that follow a beat of another, incomplete burst; ``rule`` of the memory port, if
    one was broken.
    """

    _fields_ = [
        ("bursts", c_int64 * 2),
        ("beats", c_int64 * 2),
        ("dispatched", c_int64),
        ("bytes_read", c_int64 * 8),
        ("bytes_written", c_int64),
        ("operations", c_int64 * len(OPERATIONS)),
        ("interleaved", c_int64),
        ("cycle", c_int64),
        ("rule", c_int64),
    ]


class LatheTrace(Structure):
    """Columns of the trace, ``count`` entries each; see :class:`~lathe.rtl.engines.launch.Trace`."""

    _fields_ = [(name, POINTER(c_int64)) for name in TRACE_COLUMNS]


def header(bus_bytes: int) -> str:
    """The C++ header ``shared.h`` of a machine with a bus of ``bus_bytes`` bytes."""
    ends = ", ".join(f"k{end.name.title().replace('_', '')} = {int(end)}" for end in End)
    rules = ", ".join(f"{rule.name} = {int(rule)}" for rule in Rule)
    lines = [
        "#pragma once",
        "#include <cstdint>",
        f"constexpr uint64_t kPageBytes = {PAGE_BYTES}, kBusBytes = {bus_bytes};",
        f"constexpr uint8_t kWriteId = {WRITE_ID}, kIncrementing = {INCREMENTING};",
        f"constexpr uint8_t kOkay = {OKAY}, kSlaveError = {SLAVE_ERROR}, kDecodeError = {DECODE_ERROR};",
        f"constexpr unsigned kLuck[] = {{{', '.join(map(str, LUCK))}}};",
        f"enum End : int32_t {{ {ends} }};",
        f"enum class Rule : int32_t {{ NONE = 0, {rules} }};",
    ]
    for structure in (LatheLaunch, LatheCounts, LatheTrace):
        fields = " ".join(_declared(*field[:2]) for field in structure._fields_)
        lines.append(f"struct {structure.__name__} {{ {fields} }};")
    return "\n".join(lines) + "\n"


def _declared(name: str, kind: Any) -> str:
    """The C++ declaration of a field."""
    if kind in _SCALARS:
        return f"{_SCALARS[kind]} {name};"
    scalar = _SCALARS[kind._type_]
    return f"{scalar} {name}[{kind._length_}];" if issubclass(kind, Array) else f"{scalar} *{name};"


_SCALARS: dict[Any, str] = {c_int64: "int64_t", c_uint64: "uint64_t"}
