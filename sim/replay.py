"""Replay of a raw instruction stream on a raw memory image."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig
from lathe.configs.atomic import atomic_write
from lathe.configs.html_repr import repr_html
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import BusError, Columns
from lathe.isa.encoding import decode_columns, extract_columns
from lathe.isa.errors import InvalidInstructionError
from lathe.sim.bus_fault_injection import FaultyMemory
from lathe.sim.counters import Counters
from lathe.sim.dram import SparseMemory
from lathe.sim.illegal_instructions import Refusal, blanked
from lathe.sim.run_launch import launch
from lathe.sim.stream import RawStream, stream_for
from lathe.sim.trace import Trace


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """The machine's state after the launch of a raw stream.

    ``page_addrs`` (P,) uint64, ascending, and ``pages`` (P, 4096) uint8: all pages that were given or have changed;
    memory is zero elsewhere. ``changed`` (P,) bool marks the pages that have changed. ``tokens`` in the order
    load→compute, compute→load, compute→store, store→compute. ``trace`` is None if it was not requested.
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
        """Write the final state in the format of a stream, which can be launched again.

        The ``.npz`` archive has the stream's ``insns`` and ``insn_addr``, the final ``page_addrs``, ``pages`` and
        ``tokens`` (4,) int64, ``cycles``, and ``counters`` as JSON text in uint8. It is written atomically; raises
        :class:`~lathe.configs.atomic.FileError`.
        """
        with atomic_write(path) as file:
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

    Scratchpads are initially zero; memory has the given pages, with the instructions at their address. The memory
    responds with an error to the beat or burst of `bus_error`, and to every beat from byte `memory_end` on.

    Raises :class:`~lathe.sim.stream.StreamError` for a malformed stream, and :class:`~lathe.isa.MachineFault` for bytes
    that are not an instruction and for what the machine does not execute.
    """
    raw = stream_for(cfg, stream)
    columns, undecodable = decoded(cfg, raw.insns)
    before = memory_before(raw)
    memory = memory_before(raw)
    given = set(raw.page_addrs.tolist())
    result = launch(
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
        tokens=result.tokens,
        cycles=result.counters.cycles,
        counters=result.counters,
        trace=result.trace,
    )


def decoded(cfg: HardwareConfig, insns: NDArray[np.uint8]) -> tuple[Columns, Refusal | None]:
    """The columns of a stream, blank from the first invalid instruction on, and the refusal of that one or None."""
    try:
        return decode_columns(cfg, insns), None
    except InvalidInstructionError as error:
        columns = blanked(extract_columns(cfg, insns), error.instruction)
        return columns, Refusal(error.instruction, error.code, str(error))


def memory_before(raw: RawStream) -> SparseMemory:
    """The memory before the launch. It contains the stream even if the image does not."""
    memory = SparseMemory(raw.page_addrs, raw.pages)
    memory.write(raw.insn_addr, np.ascontiguousarray(raw.insns).reshape(-1))
    return memory
