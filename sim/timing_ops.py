"""Instructions as the timing model sees them: unit, tokens, transfer, and busy cycles by the table's issue cycles."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.columnar_stream import Columns
from lathe.isa.expression_readers import ColumnsReader
from lathe.isa.operands import extra_latency
from lathe.isa.table import MEMORIES, QUEUE_OF, TABLE, TOKEN_FIELDS, Kind, MemoryType, Unit
from lathe.sim.bursts import Chains
from lathe.sim.transfer import Transfer

Ints = NDArray[np.int64]


class Command(NamedTuple):
    """An instruction as the units see it: `pops` and `pushes` are token queues, in order previous unit, next unit.

    ``steps`` are its busy cycles; ``transfer`` has no chain for instructions that transfer nothing.
    """

    unit: int
    kind: Kind
    pops: tuple[int, ...]
    pushes: tuple[int, ...]
    steps: int
    transfer: Transfer


Commands = Sequence[Command]

NO_TRANSFER = Transfer(0, 0, 0, 0, 0, (), 0, 0)


def commands_of(cfg: HardwareConfig, columns: Columns, refused: Sequence[int] = ()) -> list[Command]:
    """The commands of a stream of legal instructions, except those ``refused``, which transfer nothing.

    (A LOAD that ends far beyond its scratchpad would have millions of bursts.)
    """
    units = columns.unit
    kinds = columns.kind
    kind_list = [_KINDS[kind] for kind in kinds.tolist()]
    executed = micro_ops(columns)
    steps = np.maximum(executed * _steps_per_micro_op(cfg, columns) + np.where(executed, _trailing(cfg, columns), 0), 1)
    transfers = [NO_TRANSFER] * len(columns)
    moving = kinds == Kind.TRANSFER
    moving[list(refused)] = False
    for index, transfer in _transfers(cfg, columns, np.flatnonzero(moving)):
        transfers[index] = transfer
    pops, pushes = _tokens(columns, units)
    return list(map(_command, zip(units.tolist(), kind_list, pops, pushes, steps.tolist(), transfers, strict=True)))


def micro_ops(columns: Columns) -> Ints:
    """Executed micro-ops of each instruction, 0 for those that run none."""
    span = np.maximum(columns["uop_end"] - columns["uop_bgn"], 0)
    executions: Ints = columns["iter_out"] * columns["iter_in"] * span
    return executions


def elements(columns: Columns) -> Ints:
    """Vectors that each LOAD or STORE transfers, without pads; 0 for the other instructions."""
    moved: Ints = columns["y_size"] * columns["x_size"]
    return moved


def element_bytes(cfg: HardwareConfig) -> Ints:
    """Bytes in DRAM of a vector, by memory type."""
    return np.array([MEMORIES[memory].element_bytes(cfg) for memory in MemoryType])


_KINDS = tuple(Kind)

# Constructors without keyword arguments, which are slow: there are many instances.
_command = partial(tuple.__new__, Command)
_transfer = partial(tuple.__new__, Transfer)


def _steps_per_micro_op(cfg: HardwareConfig, columns: Columns) -> Ints:
    """The issue cycles of each micro-op of an instruction, from the table."""
    reader = ColumnsReader(cfg, columns)
    steps = np.ones(len(columns), np.int64)
    for opcode, row in TABLE.items():
        if row.kind is Kind.ISSUE:
            steps = np.where(columns.opcode == opcode, row.issue_cycles.evaluate(reader), steps)
    return steps


def _trailing(cfg: HardwareConfig, columns: Columns) -> Ints:
    """The idle cycles at an instruction's end, until its results are written."""
    steps = np.zeros(8, np.int64)
    for opcode in TABLE:
        steps[opcode] = extra_latency(cfg, opcode)
    return steps[columns.opcode]


def _transfers(cfg: HardwareConfig, columns: Columns, indices: Ints) -> list[tuple[int, Transfer]]:
    """The transfers of the instructions `indices`, each with its index."""
    y, x, stride, top, bottom, left, right, base, memory = (
        columns[name][indices]
        for name in (
            *("y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"),
            *("dram_base", "memory_type"),
        )
    )
    size = element_bytes(cfg)[memory]
    row, gap = left + x + right, left + right
    moves = x > 0
    reads = moves & (y > 0)
    merged = (y == 1) | ((stride == x) & (gap == 0))
    chains = np.where(reads, np.where(merged, 1, y), 0)
    chain_bytes = np.where(merged, y * x, x) * size
    lead = np.where(moves, top * row + np.where(reads, left, bottom * row), 0)
    tail = np.where(reads, right + bottom * row, 0)
    address, stride_bytes = base * size, stride * size
    limit = min(cfg.memory.burst_beats, cfg.timing.dma_fifo_beats)
    cut = Chains(address, chains, chain_bytes, stride_bytes, gap, tail)
    runs, beats = cut.runs(cfg.bus_bytes.bit_length() - 1, limit)
    padding = gap * np.maximum(chains - 1, 0) + tail
    columns_of = [each.tolist() for each in (address, chains, chain_bytes, stride_bytes, lead)]
    transfers = map(_transfer, zip(*columns_of, runs, beats, padding.tolist(), strict=True))
    return list(zip(indices.tolist(), transfers, strict=True))


def _tokens(columns: Columns, units: Ints) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The queues that each instruction pops and pushes."""
    keys = units.copy()
    for bit, name in enumerate(TOKEN_FIELDS):
        keys += columns[name] << (bit + 2)
    table = {key: _queues(Unit(key & 3), key >> 2) for key in set(keys.tolist())}
    queues = [table[key] for key in keys.tolist()]
    return [pops for pops, _ in queues], [pushes for _, pushes in queues]


def _queues(unit: Unit, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    named = [(name, QUEUE_OF[unit, name]) for bit, name in enumerate(TOKEN_FIELDS) if bits >> bit & 1]
    return (
        tuple(int(queue) for name, queue in named if name.startswith("pop")),
        tuple(int(queue) for name, queue in named if name.startswith("push")),
    )
