"""The engine "pysim": Amaranth's simulator, with the memory in Python. Slow, and needs nothing else."""

from collections.abc import AsyncIterator
from typing import Any

from amaranth import Cat, Module, ResetInserter, Signal
from amaranth.sim import Simulator

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.engines.dram import Bytes, Dram
from lathe.rtl.engines.host import REPORT, report, settings
from lathe.rtl.engines.launch import EngineError, Launch, Outcome
from lathe.rtl.engines.recorder import Recorder
from lathe.rtl.registers import BY_NAME


def run(config: HardwareConfig, *launches: Launch) -> list[Outcome]:
    """Run launches one after the other on one machine, without a reset between them; each has its own memory.

    Raises :class:`~lathe.rtl.geometry.RtlError` for machines that cannot be built.
    """
    machine = Accelerator(config)
    reset = Signal()
    bench = _Bench(config, machine, reset)
    simulated = Module()
    simulated.submodules.machine = ResetInserter(reset)(machine)
    simulated.d.comb += [bench.flags.eq(bench.packed["flags"]), bench.trace_bits.eq(bench.packed["trace"])]
    simulator = Simulator(simulated)
    simulator.add_clock(1e-8)
    outcomes: list[Outcome] = []

    async def testbench(ctx: Any) -> None:
        for launch in launches:
            outcomes.append(await bench.launch(ctx, launch))

    simulator.add_testbench(testbench)
    wave = next((launch.wave for launch in launches if launch.wave is not None), None)
    if wave is None:
        simulator.run()
    else:
        with simulator.write_vcd(wave):
            simulator.run()
    return outcomes


class _Bench:
    """Drives the ports of one machine."""

    def __init__(self, config: HardwareConfig, machine: Accelerator, reset: Signal) -> None:
        self.config, self.machine, self.reset = config, machine, reset
        self.bus, self.host = machine.bus.channels, machine.host.channels
        # All that the machine shows in a cycle, packed by the simulated design: sampling a signal is far cheaper than
        # evaluating an expression.
        ar, aw, w = self.bus["ar"], self.bus["aw"], self.bus["w"]
        shown = [ar["valid"], aw["valid"], w["valid"], w["last"], ar["len"], ar["id"], aw["len"]]
        self.packed = {
            "flags": Cat(machine.trace.start, machine.trace.done, machine.trace.fault, *shown),
            "trace": Cat(*machine.trace.signals),
        }
        self.flags, self.trace_bits = (Signal(len(value), name=name) for name, value in self.packed.items())
        self.recorder: Recorder

    async def launch(self, ctx: Any, launch: Launch) -> Outcome:
        content = Bytes(launch.memory)
        timing = self.config.timing

        def memory() -> Dram:
            return Dram(
                self.config.memory,
                timing.response_latency,
                content,
                memory_end=launch.memory_end,
                error=launch.error,
                stalls=launch.stalls,
            )

        await self._prepare(ctx, launch)
        if launch.reset_at is not None:
            await self._cycles(ctx, launch, memory(), until=launch.reset_at)
            await self._reset(ctx)
            content.pages = Bytes(launch.memory).pages
            await self._prepare(ctx, launch)
        dram = memory()
        await self._cycles(ctx, launch, dram, until=None)
        return await self._outcome(ctx, launch, dram, content)

    async def _prepare(self, ctx: Any, launch: Launch) -> None:
        for name, value in settings(launch):
            await self._write(ctx, name, value)

    async def _cycles(self, ctx: Any, launch: Launch, dram: Dram, until: int | None) -> None:
        """Run to the launch's end, or to cycle `until`."""
        ar, r, aw, w, b = (self.bus[name] for name in ("ar", "r", "aw", "w", "b"))
        self.recorder = Recorder(self.machine.trace, launch.count)
        set_, record, cycle = ctx.set, self.recorder.cycle, -1
        zero_offer = (True, True, None, False, None)
        before: Any = None
        waited = 0
        tick = ctx.tick().sample(self.flags, self.trace_bits, ar["addr"], aw["addr"], w["data"], w["strb"])
        ticks: AsyncIterator[Any] = tick.__aiter__()
        while True:
            # Cycle 0 is the one in which the start is seen; until then the memory waits.
            offer = dram.offer(cycle) if cycle >= 0 else zero_offer
            if offer != before:
                ar_ready, aw_ready, beat, w_ready, response = before = offer
                set_(ar["ready"], ar_ready)
                set_(aw["ready"], aw_ready)
                set_(r["valid"], beat is not None)
                if beat is not None:
                    set_(r["id"], beat[0])
                    set_(r["data"], beat[1])
                    set_(r["last"], beat[2])
                    set_(r["resp"], beat[3])
                set_(w["ready"], w_ready)
                set_(b["valid"], response is not None)
                set_(b["resp"], response or 0)
            _, _, flags, trace, ar_addr, aw_addr, w_data, w_strb = await ticks.__anext__()
            if flags & 1:
                cycle = 0
                offer = before = zero_offer
            if cycle < 0:
                assert waited < 4, "the RTL did not see its start"
                waited += 1
                continue
            # In cycle 0, done and fault are still those of the launch before.
            if cycle > 0 and (flags >> 1) & 0x1FF:
                return
            record(cycle, trace)
            if offer[2] is not None:
                dram.taken()
            if offer[3] and flags >> 12 & 1:
                dram.written(cycle, w_data, w_strb, bool(flags >> 13 & 1))
            elif offer[3] and launch.stalls is None:
                raise EngineError(f"the RTL has no data for the write beat of cycle {cycle}")
            if offer[4] is not None:
                dram.responded_now()
            if flags >> 10 & 1 and offer[0]:
                dram.accept(cycle, "read", ar_addr, (flags >> 14 & 255) + 1, flags >> 22 & 3)
            if flags >> 11 & 1 and offer[1]:
                dram.accept(cycle, "write", aw_addr, (flags >> 24 & 255) + 1, 0)
            cycle += 1
            if cycle == until:
                return
            if cycle > launch.most_cycles:
                raise EngineError(f"the RTL did not come to an end within {launch.most_cycles} cycles")

    async def _reset(self, ctx: Any) -> None:
        for channel, names in (("r", ["valid"]), ("w", ["ready"]), ("b", ["valid"])):
            for name in names:
                ctx.set(self.bus[channel][name], 0)
        ctx.set(self.reset, 1)
        await ctx.tick()
        ctx.set(self.reset, 0)

    async def _write(self, ctx: Any, name: str, value: int) -> None:
        aw, w, b = self.host["aw"], self.host["w"], self.host["b"]
        for signal, content in (
            (aw["valid"], 1),
            (aw["addr"], BY_NAME[name].address),
            (w["valid"], 1),
            (w["data"], value),
            (w["strb"], 15),
            (b["ready"], 1),
        ):
            ctx.set(signal, content)
        await ctx.tick()
        ctx.set(aw["valid"], 0)
        ctx.set(w["valid"], 0)

    async def _read(self, ctx: Any, name: str) -> int:
        ar, r = self.host["ar"], self.host["r"]
        ctx.set(ar["valid"], 1)
        ctx.set(ar["addr"], BY_NAME[name].address)
        ctx.set(r["ready"], 1)
        await ctx.tick()
        ctx.set(ar["valid"], 0)
        value = ctx.get(r["data"])
        await ctx.tick()
        return int(value)

    async def _outcome(self, ctx: Any, launch: Launch, dram: Dram, content: Bytes) -> Outcome:
        values = {name: await self._read(ctx, name) for name in REPORT}
        recorder = self.recorder
        return Outcome(
            **report(values),
            memory=content.paged(),
            operations=dict(recorder.operations),
            bytes_read={"instructions": INSTRUCTION_BYTES * recorder.dispatched, **recorder.bytes_read},
            bytes_written=recorder.bytes_written,
            bursts=dram.bursts,
            beats=dram.beats,
            trace=recorder.trace if launch.trace else None,
        )
