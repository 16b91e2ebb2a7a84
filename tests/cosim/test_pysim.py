"""The engine pysim, a Python function, compared with Amaranth's simulator: every register in every cycle."""

import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator
from random_streams import buildable, legal_machine, random_machine, stream_of_data, stream_of_time

from lathe.configs import load_config
from lathe.rtl.amaranth_netlist import prepared
from lathe.rtl.engines import pysim
from lathe.rtl.engines.compiled.function import NAME, Function
from lathe.rtl.engines.compiled.netlist import Netlist
from lathe.rtl.engines.testbench import Bench, DeviceUnderTest
from lathe.sim import replay


class Prepared(Fragment):
    """A design that is already prepared, so that simulator and netlist have the same signals."""

    def __init__(self, design):
        super().__init__()
        self.design = design

    def prepare(self):
        return self.design


def compared(cfg, launch):
    """Run a launch on both simulators, and compare outputs and registers; returns the cycles and the outcome."""
    dut, bench = DeviceUnderTest(cfg), Bench(cfg, (launch,))
    outputs = [*dut.outputs[0], *dut.outputs[1]]
    split = len(dut.outputs[0])
    design = prepared(dut, [*dut.inputs, *outputs])
    netlist = Netlist(design, outputs)
    function = Function(netlist, dut.inputs, [split, len(outputs) - split], state=True)
    scope = {}
    exec(function.text, scope)
    memories = [list(memory.rows) for memory in netlist.memories]
    machine = scope[NAME](*memories)
    next(machine)
    indices = {source: index for index, source in enumerate(function.registers.values())}
    named = {netlist.registered(signal): signal for signal in netlist.netlist.signals}
    held = [(signal, bits) for bits, signal in named.items() if bits]
    cycles = 0

    def value(bits, state):
        found = position = 0
        for source, low, width in bits:
            found |= (state[indices[source]] >> low & (1 << width) - 1) << position
            position += width
        return found

    async def testbench(ctx):
        nonlocal cycles
        steps = bench.steps()
        inputs = next(steps)
        ticks = ctx.tick().sample(*outputs).__aiter__()
        while True:
            for signal, each in zip(dut.inputs, inputs, strict=True):
                ctx.set(signal, each)
            _, _, *values = await ticks.__anext__()
            shown, trace, state = machine.send(inputs)
            assert (*shown, *trace) == tuple(values), f"cycle {cycles}"
            for signal, bits in held:
                expected = int(ctx.get(signal.as_unsigned()))
                assert value(bits, state) == expected, f"{signal!r} in cycle {cycles}"
            cycles += 1
            try:
                inputs = steps.send((shown, trace))
            except StopIteration:
                return

    simulator = Simulator(Prepared(design))
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
    assert len({source for _, bits in held for source, _, _ in bits}) == len(indices)
    return cycles, bench.outcomes[0]


def options(rng):
    """Random stalls and resets of a launch."""
    return {"stalls": rng.choice([None, rng.randrange(1000)]), "reset_at": rng.choice([None, rng.randrange(1, 60)])}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_every_register_of_tiny_equals_that_of_amaranths_simulator(seed):
    rng = random.Random(seed)
    cfg = load_config("tiny")
    cycles, outcome = compared(cfg, stream_of_data(rng, cfg, 3).launch(cfg, **options(rng)))
    assert cycles > outcome.cycles > 50


@pytest.mark.seeds(0, slow=24, first=19)
def test_every_register_of_random_machines_equals_that_of_amaranths_simulator(seed):
    rng = random.Random(seed)
    if rng.random() < 0.5:
        cfg = legal_machine(rng).with_(**{"memory.bus_bits": rng.choice([8, 32, 64, 128, 512])})
        stream = stream_of_data(rng, cfg, 4)
    else:
        cfg = buildable(random_machine(rng))
        stream = stream_of_time(rng, cfg, 10)
    calm = replay(cfg, stream.raw(cfg), trace=False)
    cycles, outcome = compared(cfg, stream.launch(cfg, most_cycles=50 * calm.cycles + 1000, **options(rng)))
    assert cycles > outcome.cycles


@pytest.mark.slow
def test_a_waveform_does_not_change_the_outcome(tmp_path):
    cfg = load_config("tiny")
    stream = stream_of_data(random.Random(7), cfg, 2)
    wave = tmp_path / "tiny.vcd"
    (plain,) = pysim.run(cfg, stream.launch(cfg))
    (traced,) = pysim.run(cfg, stream.launch(cfg, wave=str(wave)))
    assert (plain.cycles, plain.tokens, plain.units) == (traced.cycles, traced.tokens, traced.units)
    assert (plain.trace.end == traced.trace.end).all()
    assert "trace_compute_start" in wave.read_text()
