"""Speed of the engines on one program: simulator, Verilated RTL and RTL in Amaranth's simulator, side by side.

    python benchmarks/rtl.py [--json]

Cycles per second of `vta` (Verilator, with and without its trace; the build is timed apart) and of `tiny` (pysim).
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig, load_config
from lathe.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store, encode
from lathe.isa.paged_memory import PagedMemory
from lathe.rtl.engines import pysim, verilator
from lathe.rtl.engines.build import library
from lathe.rtl.engines.launch import Launch
from lathe.sim import replay

ADDRESS = 0x100000


def stream(rounds: int, rows: int) -> list[Instruction]:
    """Loads, products, element-wise work and stores that overlap, as in a layer of a network."""
    found: list[Instruction] = [Load(MemoryType.UOP, 0, 0, 1, 16, 16)]
    for turn in range(rounds):
        first = turn == 0
        found += [
            Load(MemoryType.INP, 0, 64, 1, 64, 64, pop_next=not first),
            Load(MemoryType.WGT, 0, 8, 1, 16, 16, push_next=True),
            Gemm(0, 16, rows, 4, 0, 1, 1, 0, 0, 1, pop_prev=True, push_prev=turn + 1 < rounds),
            Alu(AluOp.SHR, 0, 16, 4, 1, 1, 0, 0, 0, use_imm=True, imm=2, push_next=True, pop_next=not first),
            Store(sram_base=0, dram_base=4096, y_size=1, x_size=64, x_stride=64, pop_prev=True, push_prev=True),
        ]
    return [*found, Finish(pop_next=True)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the seconds it took."""
    begin = time.perf_counter()
    found = work()
    return found, time.perf_counter() - begin


def speeds(cfg: HardwareConfig, instructions: list[Instruction], engines: dict[str, Callable[[Launch], Any]]) -> Any:
    """Cycles of the stream, and cycles per second by engine."""
    insns = encode(cfg, instructions)
    raw = {"insns": insns, "insn_addr": ADDRESS, "page_addrs": np.zeros(0, np.uint64)}
    raw |= {"pages": np.zeros((0, 4096), np.uint8), "tokens": np.zeros(4, np.int64)}
    expected, seconds = timed(lambda: replay(cfg, raw))
    found = {"simulator": expected.cycles / seconds}
    for name, run in engines.items():
        memory = PagedMemory()
        memory.write(ADDRESS, insns.reshape(-1))
        outcomes, seconds = timed(lambda run=run, memory=memory: run(Launch(ADDRESS, len(insns), memory)))  # type: ignore[misc]
        assert outcomes[0].cycles == expected.cycles, f"{name} takes other cycles than the simulator"
        found[name] = expected.cycles / seconds
    return expected.cycles, found


def measure() -> list[dict[str, Any]]:
    """All figures."""
    rows: list[dict[str, Any]] = []

    def add(name: str, value: float, unit: str, target: float | None, *, least: bool = True) -> None:
        met = None if target is None else value >= target if least else value <= target
        rows.append({"name": name, "value": round(value, 3), "unit": unit, "target": target, "met": met})

    vta, tiny = load_config("vta"), load_config("tiny")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LATHE_CACHE"] = folder
        _, cold = timed(lambda: library(vta))
        _, cached = timed(lambda: library(vta))
        add("Verilator build of vta, cold", cold, "s", 90, least=False)
        add("Verilator build of vta, cached", cached, "s", 1, least=False)
        cycles, found = speeds(vta, stream(400, 16), {"verilator": lambda launch: verilator.run(vta, launch)})
    add("cycles of the vta stream", cycles, "cycles", None)
    add("simulator on vta", found["simulator"], "cycles/s", None)
    add("verilator on vta", found["verilator"], "cycles/s", 500e3)
    cycles, found = speeds(tiny, stream(20, 4), {"pysim": lambda launch: pysim.run(tiny, launch)})
    add("cycles of the tiny stream", cycles, "cycles", None)
    add("simulator on tiny", found["simulator"], "cycles/s", None)
    add("pysim on tiny", found["pysim"], "cycles/s", 5e3)
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, target, met}")
    arguments = parser.parse_args()
    rows = measure()
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        target = (
            "" if row["target"] is None else f"  target {row['target']:>10,.0f} {'met' if row['met'] else 'MISSED'}"
        )
        print(f"{row['name']:34} {row['value']:>16,.2f} {row['unit']:9}{target}")


if __name__ == "__main__":
    main()
