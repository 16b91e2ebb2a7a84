"""Modules compiled to Python functions, compared with Amaranth's simulator: every operator, and random modules."""

import random

import pytest
from amaranth import Cat, ClockDomain, Module, Mux, ResetInserter, ResetSignal, Signal, signed, unsigned
from amaranth.lib.memory import Memory
from amaranth.sim import Simulator

from lathe.rtl.engines.compiled.machine import compiled

SHAPES = [unsigned(1), signed(1), unsigned(3), signed(4), unsigned(9), signed(40)]
OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a + ~b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "shl": lambda a, b: a << b.as_unsigned()[:3],
    "shr": lambda a, b: a >> b.as_unsigned(),
    "mux": lambda a, b: Mux(a, b, a),
    "any": lambda a, b: Cat(a.any(), b.bool(), Cat(a, b).any()),
    "all": lambda a, b: Cat(a.all(), b.all(), a.xor()),
    "cat": lambda a, b: Cat(a, b, a[:2], ~b),
    "part": lambda a, b: Cat(a.bit_select(b.as_unsigned()[:4], 2), Cat(a, b).word_select(a.as_unsigned()[:2], 3)),
    "matches": lambda a, b: Cat(b, a).matches("-" * (len(a) + len(b) - 1) + "1", 0),
    "placed": lambda a, b: Cat(a + (b.as_unsigned() << 3), (a << 2) * b, (b << 4) - a, -(a << 1), (a << 5) >= b),
    "constants": lambda a, b: Cat((a + 0) & 6, (b | 5) ^ 3, a == 2, b < 3, (a & 12) == 4, a >> 1, b * 4),
}


def run_both(module, inputs, outputs, cycles, seed):
    """Drive the function and Amaranth's simulator with random inputs; their outputs must be equal in every cycle."""
    rng = random.Random(seed)
    machine = compiled(module, inputs, [outputs]).start()

    async def steps(ctx):
        for cycle in range(cycles):
            given = [rng.choice([0, -1, rng.getrandbits(len(signal))]) for signal in inputs]
            given = [value & (1 << len(signal)) - 1 for signal, value in zip(inputs, given, strict=True)]
            for signal, value in zip(inputs, given, strict=True):
                ctx.set(signal.as_unsigned(), value)
            (found,) = machine.send(tuple(given))
            expected = tuple(int(ctx.get(signal.as_unsigned())) for signal in outputs)
            assert found == expected, f"{given} in cycle {cycle}"
            await ctx.tick()

    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(steps)
    simulator.run()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "operator",
    [each if n % 3 == 0 else pytest.param(each, marks=pytest.mark.slow) for n, each in enumerate(OPERATORS)],
)
def test_an_operator_of_any_shapes(operator):
    m = Module()
    inputs, outputs = [], []
    for a_shape in SHAPES:
        for b_shape in SHAPES:
            a, b = Signal(a_shape, name=f"a{len(inputs)}"), Signal(b_shape, name=f"b{len(inputs)}")
            value = OPERATORS[operator](a, b)
            here, later = Signal(value.shape(), name=f"c{len(inputs)}"), Signal(value.shape(), name=f"s{len(inputs)}")
            wide = Signal(signed(60), name=f"w{len(inputs)}")
            m.d.comb += [here.eq(value), wide.eq(value)]
            m.d.sync += later.eq(value)
            inputs += [a, b]
            outputs += [here, wide, later]
    run_both(m, inputs, outputs, 40, operator)


def nested(m, rng, signals, conditions, depth):
    """Random assignments under random conditions."""
    for _ in range(rng.randrange(1, 5)):
        kind = rng.random()
        if depth and kind < 0.3:
            with m.If(rng.choice(conditions)):
                nested(m, rng, signals, conditions, depth - 1)
            if rng.random() < 0.5:
                with m.Elif(rng.choice(conditions)):
                    nested(m, rng, signals, conditions, depth - 1)
            if rng.random() < 0.5:
                with m.Else():
                    nested(m, rng, signals, conditions, depth - 1)
        elif depth and kind < 0.5:
            with m.Switch(rng.choice(signals["in"])):
                for pattern in rng.sample(["00000", "0---1", "1----", "00011"], 3):
                    with m.Case(pattern):
                        nested(m, rng, signals, conditions, depth - 1)
                with m.Default():
                    nested(m, rng, signals, conditions, depth - 1)
        else:
            domain = rng.choice(["comb", "sync"])
            number = rng.randrange(len(signals[domain]))
            target = signals[domain][number]
            # A combinational signal reads only those with lower numbers, so that there is no loop.
            known = [*signals["in"], *signals["sync"], *signals["comb"][: number if domain == "comb" else None]]
            value = rng.choice(known) + rng.choice(known) ^ rng.choice([0, 1, 31])
            if rng.random() < 0.3:
                low = rng.randrange(4)
                target = target[low : rng.randrange(low + 1, 6)]
            m.d[domain] += target.eq(value)


def within(address, depth):
    """An address within a memory; accesses beyond its end are not compared."""
    return Mux(address[:3] < depth, address[:3], 1)


@pytest.mark.seeds(4, slow=26)
def test_random_modules_with_conditions_registers_and_memories(seed):
    rng = random.Random(seed)
    m = Module()
    reset = Signal()
    signals = {
        kind: [Signal(5, name=f"{kind}{place}", init=rng.randrange(32)) for place in range(6)]
        for kind in ("in", "comb", "sync")
    }
    conditions = [
        signals["in"][0][0],
        signals["in"][1][1],
        signals["in"][2] > signals["sync"][0],
        signals["sync"][1][2],
    ]
    conditions += [~conditions[0], signals["in"][3] == 0, signals["in"][4] == 31, conditions[0] & conditions[2]]
    nested(m, rng, signals, conditions, 3)
    nested(m, rng, signals, conditions, 3)
    for place, depth in enumerate((8, 5)):
        m.submodules[f"memory{place}"] = memory = Memory(shape=10, depth=depth, init=[rng.randrange(1024), 7])
        write = memory.write_port(granularity=rng.choice([None, 5]))
        reads = [memory.read_port(), memory.read_port(transparent_for=(write,))]
        m.d.comb += [
            write.addr.eq(within(signals["in"][0], depth)),
            write.data.eq(Cat(signals["in"][1], signals["sync"][place])),
        ]
        m.d.comb += write.en.eq(rng.choice([signals["in"][2], conditions[2]]))
        for number, read in enumerate(reads):
            data = Signal(10, name=f"data{place}{number}")
            signals["sync"].append(data)
            m.d.comb += [
                read.addr.eq(within(signals["in"][rng.choice([0, 3])], depth)),
                read.en.eq(conditions[0]),
                data.eq(read.data),
            ]
    inputs = [*signals["in"], reset]
    run_both(ResetInserter(reset)(m), inputs, [*signals["comb"], *signals["sync"]], 100, seed)


def in_another_domain(m, **options):
    m.domains.other = ClockDomain(**options)
    count = Signal(4)
    m.d.other += count.eq(count + 1)
    return count


def reset_between_edges(m):
    count = in_another_domain(m, async_reset=True)
    m.d.comb += ResetSignal("other").eq(in_a_register(m)[0])
    return count


def reads_without_a_clock(m):
    m.submodules.memory = memory = Memory(shape=4, depth=4, init=[])
    return memory.read_port(domain="comb").data


def in_a_loop(m):
    a, b = Signal(), Signal()
    m.d.comb += [a.eq(~b), b.eq(a)]
    return a


def in_a_register(m):
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    return count


UNSUPPORTED = {
    "must have one clock": lambda m: in_another_domain(m) + in_a_register(m),
    "use its rising edge": lambda m: in_another_domain(m, clk_edge="neg"),
    "registers must not have an asynchronous reset": reset_between_edges,
    "depends on itself": in_a_loop,
    "a cell .*read_port.* is not supported": reads_without_a_clock,
    "operator u// of the netlist is not supported": lambda m: 9 // in_a_register(m),
}


@pytest.mark.parametrize("reason", UNSUPPORTED)
def test_unsupported_features_are_refused(reason):
    m, shown = Module(), Signal(8)
    m.d.comb += shown.eq(UNSUPPORTED[reason](m))
    with pytest.raises(AssertionError, match=reason):
        compiled(m, [], [[shown]])


def test_a_module_can_be_started_several_times():
    m = Module()
    count = Signal(4, init=3)
    m.d.sync += count.eq(count + 1)
    machine = compiled(m, [], [[count]])
    for _ in range(2):
        running = machine.start()
        assert [running.send(())[0] for _ in range(3)] == [(3,), (4,), (5,)]
