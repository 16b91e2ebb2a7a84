"""Check a module's assertions: Amaranth writes RTLIL, Yosys translates it to SMT-LIB, Bitwuzla decides it.

All three run in this process. Yosys writes predicates of a state, which is a bit vector: `_i` holds for the initial
state, `_t` for two consecutive ones, `_u` if the assumptions hold, `_a` if the assertions do. This module unrolls them.
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from amaranth import Elaboratable, Signal
from amaranth.back import rtlil
from bitwuzla import Bitwuzla, Option, Options, Parser, Result, TermManager
from pyosys import libyosys

TOP = "top"
# Memories become registers, since proofs use small ones; an assertion becomes one bit of the state.
PASSES = "proc; flatten; memory_map; async2sync; chformal -lower; dffunmap; delete -port o:*; opt_clean"
WIRE = re.compile(r"^; yosys-smt2-wire (\S+) (\d+)$", re.MULTILINE)

# The values of wires by name, for each state.
Trace = list[dict[str, int]]


def smt(module: Elaboratable, ports: Iterable[Signal]) -> str:
    """The predicates of a module as SMT-LIB. Undriven signals among `ports` are its inputs."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "top.il"), Path(folder, "top.smt2")
        source.write_text(rtlil.convert(module, name=TOP, ports=list(ports), emit_src=False))
        design = libyosys.Design()
        steps = [f"read_rtlil {source}", f"hierarchy -top {TOP}", *PASSES.split("; ")]
        for step in [*steps, f"write_smt2 -stbv -wires {target}"]:
            libyosys.Pass.call(design, f"tee -q {step}")
        return target.read_text()


class States:
    """Consecutive states that satisfy the assumptions; `constants` are inputs that never change."""

    def __init__(self, text: str, constants: Sequence[str], *, initial: bool) -> None:
        self.constants, self.initial = tuple(constants), initial
        options = Options()
        options.set(Option.PRODUCE_MODELS, True)
        self.parser = Parser(TermManager(), options)
        self._declare(text)
        self.solver: Bitwuzla = self.parser.bitwuzla()
        # Wires of width 0 have no value.
        self.widths = {name: int(width) for name, width in WIRE.findall(text) if int(width)}
        self.count = 0

    def append(self) -> None:
        """Append a state."""
        now = f"s{self.count}"
        self._declare(f"(declare-const {now} |{TOP}_s|)")
        facts = [f"(|{TOP}_u| {now})", f"(|{TOP}_h| {now})"]
        if self.count:
            facts += [f"(|{TOP}_t| s{self.count - 1} {now})", f"(not (|{TOP}_is| {now}))"]
            facts += [f"(= {self._wire(name, 0)} {self._wire(name, self.count)})" for name in self.constants]
        elif self.initial:
            facts += [f"(|{TOP}_i| {now})", f"(|{TOP}_is| {now})"]
        else:
            facts += [f"(not (|{TOP}_is| {now}))"]
        for fact in facts:
            self.solver.assert_formula(self.parser.parse_term(fact))
        self.count += 1

    def broken(self) -> bool:
        """Whether an assertion can fail in the last state; see `trace`. If not, they are assumed in it from now on."""
        holds = self.parser.parse_term(f"(|{TOP}_a| s{self.count - 1})")
        fails = self.parser.parse_term(f"(not (|{TOP}_a| s{self.count - 1}))")
        result = self.solver.check_sat(fails)
        assert result in (Result.SAT, Result.UNSAT), f"the solver is undecided: {result}"
        if result is Result.UNSAT:
            self.solver.assert_formula(holds)
        return result is Result.SAT

    def trace(self) -> Trace:
        """The states of the last failure found."""
        return [{name: self._value(name, state) for name in self.widths} for state in range(self.count)]

    def _wire(self, name: str, state: int) -> str:
        return f"(|{TOP}_n {name}| s{state})"

    def _value(self, name: str, state: int) -> int:
        value = self.solver.get_value(self.parser.parse_term(self._wire(name, state))).value(2)
        return int(value, 2) if isinstance(value, str) else int(value)

    def _declare(self, text: str) -> None:
        self.parser.parse(text, True, False)


def bounded(text: str, constants: Sequence[str], depth: int) -> Trace | None:
    """The shortest trace from the initial state to a failure within `depth` states; None if there is none."""
    states = States(text, constants, initial=True)
    for _ in range(depth):
        states.append()
        if states.broken():
            return states.trace()
    return None


def inductive(text: str, constants: Sequence[str], length: int) -> Trace | None:
    """A trace of `length` states in which the assertions hold, and one more in which one fails; None if there is none.

    The first state is arbitrary, reachable or not. Without such a trace, and without one within `length` states from
    the initial state, the assertions hold for all time.
    """
    states = States(text, constants, initial=False)
    for _ in range(length):
        states.append()
        states.solver.assert_formula(states.parser.parse_term(f"(|{TOP}_a| s{states.count - 1})"))
    states.append()
    return states.trace() if states.broken() else None
