"""The engine "pysim": the RTL and the memory model in Python. It is slow, and needs nothing but Amaranth."""

from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from typing import Any

from amaranth.sim import Simulator

from lathe.configs import HardwareConfig
from lathe.rtl.cache import as_built
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.engines.compiled.machine import Machine, compiled
from lathe.rtl.engines.launch import Launch, Outcome
from lathe.rtl.engines.testbench import Bench, DeviceUnderTest
from lathe.rtl.engines.waveform import ShownChanges


def run(config: HardwareConfig, *launches: Launch) -> list[Outcome]:
    """Run launches one after the other on one machine, without a reset between them; each has its own memory.

    The machine's netlist is compiled to one Python function; with a waveform, Amaranth's own simulator runs it.
    Raises :class:`~lathe.rtl.derived_widths.RtlError` for machines that cannot be built.
    """
    if any(launch.wave is not None for launch in launches):
        return run_in_amaranth(config, *launches)
    Geometry(config)  # rejects the machine under its own name
    return run_on(_machine(as_built(config)), config, *launches)


def run_on(machine: Machine, config: HardwareConfig, *launches: Launch) -> list[Outcome]:
    """Run launches on a machine that :func:`build` has compiled from a configuration with the same hardware."""
    step = machine.start().send
    bench = Bench(config, launches)
    steps = bench.steps()
    follow = steps.send
    inputs = next(steps, None)
    try:
        while inputs is not None:
            inputs = follow(step(inputs))
    except StopIteration:
        pass
    return bench.outcomes


def run_in_amaranth(config: HardwareConfig, *launches: Launch) -> list[Outcome]:
    """The same in Amaranth's simulator, which is the reference, is slower, and writes waveforms."""
    dut, bench = DeviceUnderTest(config), Bench(config, launches)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench(dut, bench))
    wave = next((launch.wave for launch in launches if launch.wave is not None), None)
    if wave is None:
        simulator.run()
    else:
        with closing(ShownChanges(wave, config)) as file, simulator.write_vcd(file):
            simulator.run()
    return bench.outcomes


def testbench(dut: DeviceUnderTest, bench: Bench) -> Callable[[Any], Any]:
    """A testbench process for Amaranth's simulator."""
    split = len(dut.outputs[0])

    async def driven(ctx: Any) -> None:
        steps = bench.steps()
        inputs = next(steps, None)
        before: list[int | None] = [None] * len(dut.inputs)
        ticks = ctx.tick().sample(*dut.outputs[0], *dut.outputs[1]).__aiter__()
        while inputs is not None:
            for signal, old, new in zip(dut.inputs, before, inputs, strict=True):
                if old != new:
                    ctx.set(signal, new)
            before[:] = inputs
            _, _, *values = await ticks.__anext__()
            try:
                inputs = steps.send((tuple(values[:split]), tuple(values[split:])))
            except StopIteration:
                return

    return driven


def build(config: HardwareConfig) -> Machine:
    """Compile the machine to one Python function."""
    dut = DeviceUnderTest(config)
    return compiled(dut, dut.inputs, dut.outputs)


_machine = lru_cache(maxsize=32)(build)
