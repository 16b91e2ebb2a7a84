"""Claims about hardware modules, and tests that prove them.

A claim is a circuit around a unit: registers that record its history, assumptions on its environment, and assertions.
Undriven signals of the unit, including reset, are inputs with arbitrary values in every cycle. `proved` turns a claim
into a test: it must hold for the unit, and for no mutant of it.
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
    """The circuit of a claim; a test adds to it, then it is elaborated once."""

    def __init__(self) -> None:
        self.m = Module()
        self.m.domains.sync = clock = ClockDomain("sync")
        self.ports: dict[int, Signal] = {id(signal): signal for signal in (clock.clk, clock.rst)}
        self.constants: list[str] = []
        self.assertions: dict[str, str] = {}
        self.befores = 0
        # High from the second cycle on, and from the second cycle after a reset on.
        self.begun = Signal(name="begun")
        self.m.d.sync += self.begun.eq(1)

    def about(self, unit: Any) -> Any:
        """Instantiate a unit; all its undriven signals are inputs."""
        self.m.submodules += unit
        for holder in vars(unit).values():
            for signal in signals(holder):
                self.ports[id(signal)] = signal
        return unit

    def inside(self, unit: Any) -> dict[str, Signal]:
        """Internal signals of a unit, by name: registers and wires that are not its attributes."""
        module = unit.elaborate(None)
        unit.elaborate = lambda _platform: module
        attributes = {id(signal) for holder in vars(unit).values() for signal in signals(holder)}
        return {signal.name: signal for signal in module._driving if id(signal) not in attributes}

    def part(self, unit: Any, name: str) -> Any:
        """A submodule of a unit, by name."""
        module = unit.elaborate(None)
        unit.elaborate = lambda _platform: module
        return module._named_submodules[name][0]

    def leave_open(self, unit: Any) -> None:
        """Remove the logic of a unit: its outputs, and those of its submodules, become unconstrained inputs."""
        unit.elaborate = lambda _platform: Module()
        for holder in vars(unit).values():
            for part in holder.values() if isinstance(holder, dict) else ():  # also attributes of units that use them
                if isinstance(part, Elaboratable):
                    part._MustUse__used = True  # type: ignore[attr-defined]  # Amaranth warns of unused submodules
            for part in holder if isinstance(holder, list | tuple) else (holder,):
                if isinstance(part, Elaboratable):
                    part._MustUse__used = True  # type: ignore[attr-defined]
                    self.leave_open(part)
            for signal in signals(holder):
                self.ports[id(signal)] = signal

    def input(self, shape: Any, name: str) -> Signal:
        """An input with an arbitrary value in every cycle."""
        signal = Signal(shape, name=name)
        self.ports[id(signal)] = signal
        return signal

    def constant(self, shape: Any, name: str) -> Signal:
        """An input with an arbitrary value that never changes."""
        self.constants.append(name)
        return self.input(shape, name)

    def register(self, shape: Any, name: str, following: ValueLike, init: int = 0) -> Signal:
        """A register that takes the value `following` in every cycle."""
        signal = Signal(shape, name=name, init=init)
        self.m.d.sync += signal.eq(following)
        return signal

    def before(self, value: Value) -> Signal:
        """The value one cycle ago; valid when `begun`."""
        self.befores += 1
        signal = Signal(value.shape(), name=f"before{self.befores}")
        self.m.d.sync += signal.eq(value)
        return signal

    def assume(self, condition: ValueLike) -> None:
        """Assume a condition on the environment in every cycle."""
        self.m.d.comb += Assume(condition)

    def always(self, what: str, condition: ValueLike) -> None:
        """Assert a condition in every cycle; `what` is its description in failures."""
        name = f"assertion{len(self.assertions)}"
        holds = Signal(name=name)
        self.assertions[name] = what
        self.m.d.comb += [holds.eq(Value.cast(condition).bool()), Assert(holds)]

    def elaborate(self, _platform: object) -> Module:
        return self.m

    def described(self, trace: Trace) -> str:
        """A trace as text: the broken assertions, then the inputs and outputs of each cycle."""
        broken = [what for name, what in self.assertions.items() if not trace[-1][name]]
        shown = [name for name in trace[0] if "." not in name and "$" not in name and name not in self.assertions]
        rows = [
            f"  cycle {cycle}: " + " ".join(f"{name}={state[name]:#x}" for name in shown if state[name])
            for cycle, state in enumerate(trace)
        ]
        return "\n".join([f"broken: {'; '.join(broken)}", *rows])


def signals(holder: Any) -> Iterator[Signal]:
    """The signals of an attribute of a unit: one, or several in a list, a dict, a record or a port.

    Signals of submodules are not included: undriven ones have their initial value, as in the machine.
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


# The function of a test: it receives the unit's Python module, mutated or not, and an empty claim.
Statement = Callable[..., None]


def proved(
    module: ModuleType, *mutants: tuple[str, str], induction: int | None = None, depth: int | None = None
) -> Callable[[Statement], Callable[..., None]]:
    """Make a test that proves a statement for `module`, and refutes it for each of its `mutants`, (old, new) each.

    With `induction` = k, it holds for all time, by k-induction: in the first k cycles, and in each cycle after k cycles
    in which it holds. Otherwise, it holds for the first `depth` cycles. A mutant must break it within `depth` cycles
    (20 if not given) from the initial state, so that the counterexample is reachable.
    """
    assert mutants, "a proof without mutants may be vacuous"
    assert (induction, depth) != (None, None), "a proof is by induction, or to a depth"

    def decorate(statement: Statement) -> Callable[..., None]:
        import functools
        import inspect

        @functools.wraps(statement)
        def test(**parameters: Any) -> None:
            claim = stated(statement, module, parameters)
            text = smt(claim, claim.ports.values())
            constants = claim.constants
            trace = bounded(text, constants, depth if induction is None else induction)
            assert trace is None, f"does not hold: {claim.described(trace)}"
            if induction is not None:
                trace = inductive(text, constants, induction)
                assert trace is None, f"does not follow from {induction} previous cycles: {claim.described(trace)}"
            for old, new in mutants:
                claim = stated(statement, mutant(module, old, new), parameters)
                text = smt(claim, claim.ports.values())
                found = bounded(text, claim.constants, depth or 20)
                assert found is not None, f"a mutant is not detected: {new!r} instead of {old!r}"

        # pytest passes the parameters in a function's signature: leave out those that `stated` passes.
        own = [each for name, each in inspect.signature(statement).parameters.items() if name not in GIVEN]
        test.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return test

    return decorate


GIVEN = ("claim", "rtl")


def stated(statement: Statement, module: ModuleType, parameters: dict[str, Any]) -> Claim:
    """The claim that the function of a test makes about a module."""
    claim = Claim()
    statement(claim=claim, rtl=module, **parameters)
    return claim
