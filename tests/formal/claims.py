"""Claims about a unit of the hardware, and the tests that are made of them.

A claim is a circuit around the unit: registers that remember what has happened, assumptions on what the unit's
surroundings do, and assertions. Whatever of the unit nobody drives, reset included, is an input that does anything, in
every cycle. `proved` makes a test of a claim: it holds of the unit, and of no mutant.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Assert, Assume, ClockDomain, Value, ValueLike
from amaranth.lib import data
from mutants import mutant
from solver import Trace, bounded, inductive, smt


class Claim(Elaboratable):
    """Built up by a test, then elaborated once."""

    def __init__(self) -> None:
        self.m = Module()
        self.m.domains.sync = clock = ClockDomain("sync")
        self.ports: dict[int, Signal] = {id(signal): signal for signal in (clock.clk, clock.rst)}
        self.constants: list[str] = []
        self.promises: dict[str, str] = {}
        self.befores = 0
        # From the second cycle on, and from the second after a reset on.
        self.begun = Signal(name="begun")
        self.m.d.sync += self.begun.eq(1)

    def about(self, unit: Any) -> Any:
        """Put a unit in, all of whose signals that nothing drives are inputs."""
        self.m.submodules += unit
        for holder in vars(unit).values():
            for signal in signals(holder):
                self.ports[id(signal)] = signal
        return unit

    def inside(self, unit: Any) -> dict[str, Signal]:
        """What a unit drives within its own module, by name: registers and wires that are no attributes of it."""
        module = unit.elaborate(None)
        unit.elaborate = lambda _platform: module
        attributes = {id(signal) for holder in vars(unit).values() for signal in signals(holder)}
        return {signal.name: signal for signal in module._driving if id(signal) not in attributes}

    def part(self, unit: Any, name: str) -> Any:
        """A unit within a unit's own module, by the name that it has there."""
        module = unit.elaborate(None)
        unit.elaborate = lambda _platform: module
        return module._named_submodules[name][0]

    def leave_open(self, unit: Any) -> None:
        """Take out what is in a unit of the machine: its outputs, and its parts' outputs, are inputs from now on."""
        unit.elaborate = lambda _platform: Module()
        for holder in vars(unit).values():
            for part in holder.values() if isinstance(holder, dict) else ():  # named by their users, too
                if isinstance(part, Elaboratable):
                    part._MustUse__used = True  # type: ignore[attr-defined]  # Amaranth warns of parts without use
            for part in holder if isinstance(holder, list | tuple) else (holder,):
                if isinstance(part, Elaboratable):
                    part._MustUse__used = True  # type: ignore[attr-defined]
                    self.leave_open(part)
            for signal in signals(holder):
                self.ports[id(signal)] = signal

    def input(self, shape: Any, name: str) -> Signal:
        """A value that the surroundings choose in every cycle."""
        signal = Signal(shape, name=name)
        self.ports[id(signal)] = signal
        return signal

    def constant(self, shape: Any, name: str) -> Signal:
        """A value that the surroundings choose once."""
        self.constants.append(name)
        return self.input(shape, name)

    def register(self, shape: Any, name: str, following: ValueLike, init: int = 0) -> Signal:
        """A register of the claim's own."""
        signal = Signal(shape, name=name, init=init)
        self.m.d.sync += signal.eq(following)
        return signal

    def before(self, value: Value) -> Signal:
        """What a value was one cycle ago; means something when `begun`."""
        self.befores += 1
        signal = Signal(value.shape(), name=f"before{self.befores}")
        self.m.d.sync += signal.eq(value)
        return signal

    def assume(self, condition: ValueLike) -> None:
        """What the surroundings see to in every cycle."""
        self.m.d.comb += Assume(condition)

    def always(self, what: str, condition: ValueLike) -> None:
        """What must hold in every cycle. `what` is told when it does not."""
        name = f"promise{len(self.promises)}"
        kept = Signal(name=name)
        self.promises[name] = what
        self.m.d.comb += [kept.eq(Value.cast(condition).bool()), Assert(kept)]

    def elaborate(self, _platform: object) -> Module:
        return self.m

    def told(self, trace: Trace) -> str:
        """A trace in words: which promise is broken, then the inputs and outputs of each cycle."""
        broken = [what for name, what in self.promises.items() if not trace[-1][name]]
        shown = [name for name in trace[0] if "." not in name and "$" not in name and name not in self.promises]
        rows = [
            f"  cycle {cycle}: " + " ".join(f"{name}={state[name]:#x}" for name in shown if state[name])
            for cycle, state in enumerate(trace)
        ]
        return "\n".join([f"broken: {'; '.join(broken)}", *rows])


def signals(holder: Any) -> Iterator[Signal]:
    """The signals of an attribute of a unit: one, or several in a list, a dict, a record or a port.

    Not those of a unit within the unit: what that leaves open has its initial value, as in the machine.
    """
    if isinstance(holder, Signal):
        yield holder
    elif isinstance(holder, data.View):
        yield from signals(holder.as_value())
    elif isinstance(holder, list | tuple):
        for each in holder:
            yield from signals(each)
    elif isinstance(holder, dict):
        for each in holder.values():
            yield from signals(each)
    elif type(holder).__module__.startswith("lathe.rtl.") and not isinstance(holder, Elaboratable):
        for each in vars(holder).values():
            yield from signals(each)


# What a test states: given the unit's module, mutated or not, and an empty claim.
Statement = Callable[..., None]


def proved(
    module: ModuleType, *mutants: tuple[str, str], induction: int | None = None, depth: int | None = None
) -> Callable[[Statement], Callable[..., None]]:
    """A test that a statement holds of what is in `module`, and of none of its `mutants`, (old, new) each.

    With `induction`, it holds for ever: of that many cycles from the first on, and of each cycle after that many in
    which it held. Otherwise it holds for the first `depth` cycles. A mutant must break it within `depth` cycles (20 if
    not given) from the first on, so that what refutes it can happen.
    """
    assert mutants, "a proof that no mutant fails may prove nothing"
    assert (induction, depth) != (None, None), "a proof is by induction, or to a depth"

    def made(statement: Statement) -> Callable[..., None]:
        import functools
        import inspect

        @functools.wraps(statement)
        def test(**parameters: Any) -> None:
            claim = stated(statement, module, parameters)
            text = smt(claim, claim.ports.values())
            constants = claim.constants
            trace = bounded(text, constants, depth if induction is None else induction)
            assert trace is None, f"not so: {claim.told(trace)}"
            if induction is not None:
                trace = inductive(text, constants, induction)
                assert trace is None, f"does not follow from {induction} cycles before: {claim.told(trace)}"
            for old, new in mutants:
                claim = stated(statement, mutant(module, old, new), parameters)
                text = smt(claim, claim.ports.values())
                found = bounded(text, claim.constants, depth or 20)
                assert found is not None, f"a fault is not noticed: {new!r} instead of {old!r}"

        # pytest passes what a function names: the test's own parameters, not what `stated` gives.
        own = [each for name, each in inspect.signature(statement).parameters.items() if name not in GIVEN]
        test.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return test

    return made


GIVEN = ("claim", "rtl")


def stated(statement: Statement, module: ModuleType, parameters: dict[str, Any]) -> Claim:
    """The claim that a statement makes about what is in a module."""
    claim = Claim()
    statement(claim=claim, rtl=module, **parameters)
    return claim
