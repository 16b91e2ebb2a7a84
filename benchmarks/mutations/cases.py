"""Cases for mutation testing: launches of random streams and of compiled programs, with several memories.

The machine is `tiny` with `gemm_begin` and the RESCALE extensions, which do not change programs that were built for
`tiny`.

The streams are those of the cosimulation tests.
"""

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "cosim"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "generators"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "sim"))

from comparison import drain
from extended_machines import with_extensions
from overlapping_streams import overlapping_stream
from random_streams import (
    bad_memory,
    broken_stream,
    other_memory,
    stream_of_beginnings,
    stream_of_data,
    stream_of_shifts,
    stream_of_time,
    stream_of_transfers,
    tied_stream,
)
from rescale_streams import at_once, followed
from rescaling import rescale_flags
from streams import NO_PAGES, Stream

import lathe as lt
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Alu, Finish, Gemm, MachineFault, Opcode, Rescale, Store, encode_uops
from lathe.isa.operands import extra_latency, operands_of
from lathe.rtl.engines import pysim
from lathe.rtl.engines.compiled.machine import Machine
from lathe.rtl.engines.launch import Launch, Outcome
from lathe.sim import ReplayResult, replay
from lathe.sim.simulate import memory_of
from mutations.programs import CONFIG, Built, programs

MACHINE = with_extensions(CONFIG, ("gemm_begin", "rescale", "rescale_add", "lookup"))

Simulated = ReplayResult | MachineFault


@dataclass
class Case:
    """Streams that are launched in sequence on one machine, each with a memory of its own.

    ``data``: whether tokens order all data, so that memory afterwards is defined. ``faulty``: bus errors of the memory.
    ``stalls``: a seed of random stalls, with which cycles are undefined. ``reset``: the share of its cycles after which
    the launch is reset and restarted. ``built``: the program of the stream.
    """

    name: str
    config: lt.HardwareConfig
    streams: Sequence[Stream]
    data: bool = True
    faulty: Mapping[str, Any] = field(default_factory=dict)
    stalls: int | None = None
    reset: float | None = None
    built: Built | None = None

    @cached_property
    def right(self) -> list[Simulated]:
        """The simulator's results, cached; must first be used without a planted fault."""
        return self.simulated()

    @cached_property
    def ran(self) -> list[Outcome]:
        """The RTL's results, cached; must first be used without a planted fault."""
        return pysim.run(self.config, *self.launches)

    def simulated(self) -> list[Simulated]:
        """The simulator's results with the planted fault, if any."""
        return [self._simulated(stream) for stream in self.streams]

    def _simulated(self, stream: Stream) -> Simulated:
        options = {"bus_error": self.faulty.get("error"), "memory_end": self.faulty.get("memory_end")}
        try:
            return replay(self.config, stream.raw(self.config), **options)
        except MachineFault as fault:
            return fault

    def run_on(self, machine: Machine) -> list[Outcome]:
        """The results of another build of the RTL."""
        return pysim.run_on(machine, self.config, *self.launches)

    @cached_property
    def launches(self) -> list[Launch]:
        """The streams as the RTL takes them."""
        found = []
        for stream, result in zip(self.streams, self.right, strict=True):
            cycles = result.cycles if isinstance(result, ReplayResult) else (result.cycle or 0) + drain(self.config)
            most = cycles * (200 if self.stalls is not None else 1) + 1000
            reset = None if self.reset is None else max(1, int(cycles * self.reset))
            options = {"stalls": self.stalls, "reset_at": reset, "most_cycles": most}
            found.append(stream.launch(self.config, **options, **self.faulty))
        return found


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """All cases, beginning with fast ones that catch many faults."""
    return tuple(_cases())


def calm_cases() -> list[Case]:
    """The cases whose cycles the simulator predicts."""
    return [case for case in cases() if case.stalls is None and case.reset is None]


def _cases() -> Iterator[Case]:
    def rng_and_machine(seed: object) -> tuple[random.Random, lt.HardwareConfig]:
        rng = random.Random(str(seed))
        return rng, other_memory(rng, MACHINE)

    built = iter(programs())
    for seed in range(10):
        rng, cfg = rng_and_machine(seed)
        yield Case(f"overlap {seed}", cfg, [overlapping_stream(rng, cfg, rng.choice([2, 5, 12]))])
        yield Case(f"data {seed}", cfg, [stream_of_data(rng, cfg, rng.choice([6, 20]))])
        yield Case(f"time {seed}", cfg, [stream_of_time(rng, cfg, rng.choice([10, 30]))], data=False)
        for program in itertools.islice(built, 2):
            yield Case(program.name, MACHINE, [program_stream(program)], built=program)
    yield from _broken(rng_and_machine)
    for seed in range(8):
        rng, cfg = rng_and_machine(f"transfers {seed}")
        yield Case(f"transfers {seed}", cfg, [stream_of_transfers(rng, cfg)])
    for seed in range(2):
        rng, cfg = rng_and_machine(f"greatest {seed}")
        yield Case(f"greatest {seed}", cfg, [overlapping_stream(rng, cfg, 2, content="greatest")])
    yield Case("shifts", MACHINE, [stream_of_shifts(random.Random(0), MACHINE)])
    for seed in range(2):
        rng, cfg = rng_and_machine(f"sums begin {seed}")
        yield Case(f"sums begin {seed}", cfg, [stream_of_beginnings(rng, cfg)])
    for seed in range(10):
        rng, cfg = rng_and_machine(f"rescaled {seed}")
        yield Case(f"rescaled {seed}", cfg, [followed(rng, cfg)])
        yield Case(f"rescaled once {seed}", cfg, [at_once(rng, cfg)])
    for seed in range(20):
        rng, cfg = rng_and_machine(f"reuse {seed}")
        yield Case(f"reuse {seed}", cfg, [_stream_of_reuse(rng, cfg)], data=False)
    for seed in range(3):
        rng, cfg = rng_and_machine(f"tie {seed}")
        stream = tied_stream(rng, cfg)
        if stream is not None:
            yield Case(f"tie {seed}", cfg, [stream], data=False)
    for seed in range(4):
        rng, cfg = rng_and_machine(f"chain {seed}")
        streams, before = [], None
        for _ in range(3):
            streams.append(overlapping_stream(rng, cfg, rng.choice([2, 5]), before=before))
            before = replay(cfg, streams[-1].raw(cfg), trace=False).tokens
        yield Case(f"launches {seed}", cfg, streams)
    for seed in range(4):
        rng, cfg = rng_and_machine(f"after {seed}")
        whole, broken = overlapping_stream(rng, cfg, 2), None
        while broken is None or not isinstance(Case("", cfg, [broken])._simulated(broken), MachineFault):
            broken = broken_stream(rng, cfg, stream_of_time(rng, cfg, 4))
        unfinished = replace(whole, instructions=[each for each in whole.instructions if not isinstance(each, Finish)])
        yield Case(f"after a fault {seed}", cfg, [broken, whole, unfinished, whole])
    for seed in range(4):
        rng, cfg = rng_and_machine(f"reset {seed}")
        yield Case(f"reset {seed}", cfg, [overlapping_stream(rng, cfg, 4)], reset=rng.uniform(0.1, 0.9))
    for seed in range(10):
        rng, cfg = rng_and_machine(f"stalls {seed}")
        yield Case(f"stalls {seed}", cfg, [overlapping_stream(rng, cfg, rng.choice([2, 5]))], stalls=seed)
    for seed in range(4):
        # A burst for each vector, whose addresses the bus accepts after random delays.
        rows = Store(sram_base=0, dram_base=0, y_size=60, x_size=1, x_stride=16)
        yield Case(f"stalls of rows {seed}", CONFIG, [Stream([rows, Finish()], *NO_PAGES)], stalls=seed)


def _broken(rng_and_machine: Callable[[object], tuple[random.Random, lt.HardwareConfig]]) -> Iterator[Case]:
    """Launches that end with most kinds of fault; some have indices out of range, which are rare at random."""
    for seed in range(40):
        rng, cfg = rng_and_machine(f"broken {seed}")
        kind = stream_of_time if rng.random() < 0.5 else stream_of_data
        broken = broken_stream(rng, cfg, kind(rng, cfg, rng.choice([3, 10])))
        yield Case(f"broken {seed}", cfg, [broken], data=False, faulty=bad_memory(rng))
    for seed in range(4):
        rng, cfg = rng_and_machine(f"overflow {seed}")
        stream = stream_of_time(rng, cfg, 20)
        yield Case(f"overflow {seed}", cfg, [replace(stream, tokens=[65535 - seed // 2] * 4)], data=False)
    # The command that waits for ever is the last but one, so that it is still decoded when fetch is done.
    stuck = [Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True), Finish()]
    yield Case("stuck", CONFIG, [Stream(stuck, *NO_PAGES)], data=False)
    yield Case("index of a second step", CONFIG, [_stream_of_a_second_step(CONFIG)], data=False)
    for seed in range(12):
        rng, cfg = rng_and_machine(f"index {seed}")
        stream = stream_of_data(rng, cfg, 8)
        loops = [
            place
            for place, each in enumerate(stream.instructions)
            if isinstance(each, Gemm | Alu | Rescale) and each.uop_end
        ]
        if loops:
            place = rng.choice(loops)
            each = stream.instructions[place]
            operand = rng.choice(operands_of(each.opcode))
            far = {"iter_out": 3, "iter_in": 9, operand.factor_fields[1]: rng.choice([20, 60, 100])}
            stream.instructions[place] = replace(each, **far)
            yield Case(f"index {seed}", cfg, [stream], data=False)


def _stream_of_a_second_step(cfg: lt.HardwareConfig) -> Stream:
    """An addition whose destination, accessed in the second cycle of a micro-op, is out of range in the third one."""
    words = encode_uops(cfg, [cfg.acc_depth // 2], [0], [0])
    page = np.zeros((1, PAGE_BYTES), np.uint8)
    page[0, : 4 * len(words)] = np.asarray(words, "<u4").view(np.uint8)
    instructions = [
        lt.Load(lt.MemoryType.UOP, 0, 0, 1, 1, 1),
        Alu(lt.AluOp.ADD, 0, 1, 1, 5, 0, cfg.acc_depth // 4, 0, 1),
        Finish(),
    ]
    return Stream(instructions, np.zeros(1, np.uint64), page)


def _stream_of_reuse(rng: random.Random, cfg: lt.HardwareConfig) -> Stream:
    """A RESCALE that reads an accumulator again when its new value is just available, or just not yet."""
    stages = extra_latency(cfg, Opcode.RESCALE)
    flags = rescale_flags(rng, cfg)
    distance = (stages // 2 if flags["add"] else stages) + rng.choice([0, 1])
    # Within the table, in the next inner iteration, or in a later outer one.
    kind = rng.choice(["table", "inner", "outer", "operand"])
    dst, loops, factors = list(range(distance)), (2, 1), (0, 0)
    if kind == "table":
        dst, loops = [*dst, 0, 20, 21], (1, 1)
    elif kind == "inner":
        loops, factors = (1, 3), (0, distance - 1)
    elif kind == "outer":
        dst, loops, factors = [0], (2, distance), (rng.choice([0, 1, distance - 1]), 1)
    src = [dst[0] if kind == "operand" and number else 100 for number in range(len(dst))]
    words = encode_uops(cfg, dst, src, [2 * number for number in range(len(dst))])
    page = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, (2, PAGE_BYTES)).astype(np.uint8)
    page[0, : 4 * len(words)] = np.asarray(words, "<u4").view(np.uint8)
    instructions = [
        lt.Load(lt.MemoryType.UOP, 0, 0, 1, len(words), len(words)),
        lt.Load(lt.MemoryType.PAR, 0, PAGE_BYTES // cfg.par_element_bytes, 1, 64, 64),
        Rescale(0, len(words), *loops, *factors, 0, 0, **flags),
        Finish(),
    ]
    return Stream(instructions, np.arange(2, dtype=np.uint64) * PAGE_BYTES, page)


def program_stream(built: Built) -> Stream:
    """The raw stream of a program and its inputs."""
    program = built.program
    content = memory_of(program, built.inputs).content
    count = -(-len(content) // PAGE_BYTES)
    pages = np.zeros((count, PAGE_BYTES), np.uint8)
    pages.reshape(-1)[: len(content)] = content
    addresses = np.arange(count, dtype=np.uint64) * PAGE_BYTES
    return Stream(list(program.instructions), addresses, pages, program.tokens_in, program.insn_addr)
