"""Replay of a raw instruction stream on a raw memory image."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig
from lathe.configs.atomic import writing
from lathe.configs.html_repr import repr_html
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import BusError, Columns
from lathe.isa.encoding import decode_columns, extract_columns
from lathe.isa.errors import NoInstructionError
from lathe.sim.bus_fault_injection import FaultyMemory
from lathe.sim.counters import Counters
from lathe.sim.dram import SparseMemory
from lathe.sim.illegal_instructions import Refusal, blanked
from lathe.sim.run_launch import launch
from lathe.sim.stream import RawStream, stream_for
from lathe.sim.trace import Trace


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """The machine after the launch of a raw stream.

    ``page_addrs`` (P,) uint64, ascending, and ``pages`` (P, 4096) uint8: all pages that were given or that differ from
    before; memory is zero elsewhere. ``changed`` (P,) bool tells which of them differ. ``tokens`` in the order
    load→compute, compute→load, compute→store, store→compute. ``trace`` is None when it was not asked for.
    """

    stream: RawStream
    page_addrs: NDArray[np.uint64]
    pages: NDArray[np.uint8]
    changed: NDArray[np.bool_]
    tokens: tuple[int, int, int, int]
    cycles: int
    counters: Counters
    trace: Trace | None

    _repr_html_ = repr_html

    def save(self, path: str | PathLike[str]) -> None:
        """Write the machine afterwards in the form of a stream, which can be launched again.

        The ``.npz`` archive has the stream's ``insns`` and ``insn_addr``, ``page_addrs``, ``pages`` and ``tokens`` (4,)
        int64 as they are now, ``cycles``, and ``counters`` as JSON text in uint8. The file is whole or untouched;
        raises :class:`~lathe.configs.atomic.FileError`.
        """
        with writing(path) as file:
            np.savez_compressed(
                file,
                insns=self.stream.insns,
                insn_addr=np.uint64(self.stream.insn_addr),
                page_addrs=self.page_addrs,
                pages=self.pages,
                tokens=np.array(self.tokens, np.int64),
                cycles=np.int64(self.cycles),
                counters=np.frombuffer(json.dumps(self.counters.to_dict()).encode(), np.uint8),
            )


def replay(
    cfg: HardwareConfig,
    stream: str | PathLike[str] | Mapping[str, ArrayLike],
    *,
    trace: bool = True,
    bus_error: BusError | None = None,
    memory_end: int | None = None,
) -> ReplayResult:
    """Launch a raw stream: an ``.npz`` file or a mapping with insns, insn_addr, page_addrs, pages and tokens.

    Scratchpads are zero at first; memory is as the pages say, with the instructions at their address. It answers the
    beat or burst of `bus_error` with an error, and every beat from byte `memory_end` on.

    Raises :class:`~lathe.sim.stream.StreamError` for a stream of another form, and :class:`~lathe.isa.MachineFault`
    for bytes that are no instruction and for what the machine does not carry out.
    """
    raw = stream_for(cfg, stream)
    columns, undecodable = decoded(cfg, raw.insns)
    before = memory_before(raw)
    memory = memory_before(raw)
    given = set(raw.page_addrs.tolist())
    ended = launch(
        cfg,
        columns,
        columns.instructions(),
        raw.insn_addr,
        raw.tokens,
        memory,
        trace=trace,
        undecodable=undecodable,
        faults=FaultyMemory(bus_error, memory_end),
    )
    blank = np.zeros(PAGE_BYTES, np.uint8)
    changes = {
        address: not np.array_equal(page, before.pages.get(address, blank)) for address, page in memory.pages.items()
    }
    addresses = sorted(address for address, changed in changes.items() if changed or address in given)
    return ReplayResult(
        stream=raw,
        page_addrs=np.array(addresses, np.uint64),
        pages=np.array([memory.pages[address] for address in addresses], np.uint8).reshape(-1, PAGE_BYTES),
        changed=np.array([changes[address] for address in addresses], bool),
        tokens=ended.tokens,
        cycles=ended.counters.cycles,
        counters=ended.counters,
        trace=ended.trace,
    )


def decoded(cfg: HardwareConfig, insns: NDArray[np.uint8]) -> tuple[Columns, Refusal | None]:
    """The columns of a stream; blank from the first instruction on whose bytes are none, which comes with them."""
    try:
        return decode_columns(cfg, insns), None
    except NoInstructionError as error:
        columns = blanked(extract_columns(cfg, insns), error.instruction)
        return columns, Refusal(error.instruction, error.code, str(error))


def memory_before(raw: RawStream) -> SparseMemory:
    """The memory before the launch. A stream is in memory also when its image leaves it out."""
    memory = SparseMemory(raw.page_addrs, raw.pages)
    memory.write(raw.insn_addr, np.ascontiguousarray(raw.insns).reshape(-1))
    return memory
