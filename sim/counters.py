"""Counters of a launch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa import AluOp, Columns, MemoryType, Opcode
from lathe.isa.stall import StallCause
from lathe.isa.table import TABLE, Kind
from lathe.sim.engine import Engine
from lathe.sim.memory_port import READ, WRITE
from lathe.sim.timing_ops import element_bytes, elements, micro_ops
from lathe.sim.trace import UNIT_NAMES

# Other instructions with micro-ops, which are counted among the ALU operations by their own names.
_OTHERS = tuple(
    opcode for opcode, row in TABLE.items() if row.kind is Kind.ISSUE and opcode not in (Opcode.GEMM, Opcode.ALU)
)

ALU_OPERATIONS = tuple(each.name.lower() for each in (*AluOp, *_OTHERS))
"""The names that are counted among the ALU operations."""


@dataclass(frozen=True)
class UnitCounters:
    """A unit's cycles: ``busy`` ones, and ``stalls`` by cause. Their sum is the launch's cycles."""

    instructions: int
    busy: int
    stalls: Mapping[str, int]


@dataclass(frozen=True)
class Counters:
    """Counts of one launch; docs/timing-model.md defines those of cycles.

    ``gemm_operations``: executed GEMM micro-ops, each a batch × block_in by block_in × block_out matmul;
    ``reset_operations``: micro-ops of GEMM with reset. ``alu_operations``: executed micro-ops of all other
    instructions; ``alu_operations_of`` has those of ALU by operation, and others by instruction. ``bytes_read`` by
    memory type and of the instruction stream, and ``bytes_written``: what instructions transfer, without pads;
    ``read_beats`` and ``write_beats``: what the bus carries, including unused bytes of beats. ``units``: load, compute,
    store, fetch.
    """

    cycles: int
    gemm_operations: int
    reset_operations: int
    alu_operations: int
    alu_operations_of: Mapping[str, int]
    bytes_read: Mapping[str, int]
    bytes_written: Mapping[str, int]
    read_bursts: int
    read_beats: int
    write_bursts: int
    write_beats: int
    units: Mapping[str, UnitCounters]

    @property
    def utilisation(self) -> float:
        """The fraction of cycles in which the matrix core started a micro-op."""
        return self.gemm_operations / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values for JSON."""
        return asdict(self)

    @classmethod
    def total(cls, launches: "Sequence[Counters]") -> "Counters":
        """The total counts of consecutive launches on one machine; zeros without launches."""
        operations = ("gemm_operations", "reset_operations", "alu_operations")
        names = ("cycles", *operations, "read_bursts", "read_beats", "write_bursts", "write_beats")
        units = dict.fromkeys(name for each in launches for name in each.units)
        return cls(
            **{name: sum(getattr(each, name) for each in launches) for name in names},
            alu_operations_of=_summed([each.alu_operations_of for each in launches]),
            bytes_read=_summed([each.bytes_read for each in launches]),
            bytes_written=_summed([each.bytes_written for each in launches]),
            units={
                unit: UnitCounters(
                    sum(each.units[unit].instructions for each in launches),
                    sum(each.units[unit].busy for each in launches),
                    _summed([each.units[unit].stalls for each in launches]),
                )
                for unit in units
            },
        )

    @classmethod
    def of(cls, cfg: HardwareConfig, columns: Columns, engine: Engine) -> "Counters":
        """The counts of a complete launch of the stream `columns`."""
        opcode = columns.opcode
        executed = micro_ops(columns)
        operations = columns["alu_opcode"]
        reset = columns["reset"] != 0
        gemm = opcode == Opcode.GEMM
        alu = (columns.kind == Kind.ISSUE) & ~gemm
        moved = elements(columns) * element_bytes(cfg)[columns["memory_type"]]
        stores = columns.stores
        loads = (columns.kind == Kind.TRANSFER) & ~stores
        read = {
            memory.name.lower(): int(moved[loads & (columns["memory_type"] == memory)].sum())
            for memory in MemoryType
            if memory is not MemoryType.OUT
        }
        port = engine.port
        return cls(
            cycles=engine.cycles,
            gemm_operations=int(executed[gemm & ~reset].sum()),
            reset_operations=int(executed[gemm & reset].sum()),
            alu_operations=int(executed[alu].sum()),
            alu_operations_of={
                **{
                    operation.name.lower(): int(executed[(opcode == Opcode.ALU) & (operations == operation)].sum())
                    for operation in AluOp
                },
                **{other.name.lower(): int(executed[opcode == other].sum()) for other in _OTHERS},
            },
            bytes_read={"instructions": INSTRUCTION_BYTES * len(columns), **read},
            bytes_written={"out": int(moved[stores].sum())},
            read_bursts=port.bursts[READ],
            read_beats=port.beats[READ],
            write_bursts=port.bursts[WRITE],
            write_beats=port.beats[WRITE],
            units=_units(columns, engine),
        )


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sums by name, in the order of first occurrence."""
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def _units(columns: Columns, engine: Engine) -> dict[str, UnitCounters]:
    timeline = engine.timeline
    numbers = np.bincount(columns.unit, minlength=3).tolist()
    counters = {}
    for unit, name in enumerate(UNIT_NAMES):
        counts = list(timeline.stalls[unit])
        # The remaining cycles are after the unit's last instruction.
        counts[StallCause.EMPTY] += engine.cycles - timeline.busy[unit] - sum(counts)
        counters[name] = UnitCounters(
            instructions=numbers[unit] if unit < len(numbers) else len(columns),
            busy=timeline.busy[unit],
            stalls={str(cause): counts[cause] for cause in StallCause if counts[cause]},
        )
    return counters
