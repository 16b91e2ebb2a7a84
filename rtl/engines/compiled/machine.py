"""A module as a Python function: compiled once, started as often as wanted."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from amaranth import Elaboratable, Signal

from lathe.rtl.amaranth_netlist import prepared
from lathe.rtl.engines.compiled.function import NAME, Function
from lathe.rtl.engines.compiled.netlist import Netlist


@dataclass(frozen=True)
class Machine:
    """A compiled module. `depths` has the words of each memory, with their initial contents `contents`."""

    code: CodeType
    contents: tuple[tuple[int, ...], ...]

    def start(self) -> Generator[Any, Any, None]:
        """A machine in its first state. It is sent the inputs of a cycle, and yields the outputs of that cycle."""
        scope: dict[str, Any] = {}
        exec(self.code, scope)
        running: Generator[Any, Any, None] = scope[NAME](*(list(content) for content in self.contents))
        next(running)
        return running


def compiled(module: Elaboratable, inputs: Sequence[Signal], outputs: Sequence[Iterable[Signal]]) -> Machine:
    """Compile a module as a function of `inputs`, in this order; others keep their first value.

    It yields a tuple of values for each group of `outputs`, as unsigned numbers. Raises AssertionError for modules that
    have anything but what docs/rtl-engines.md lists: a second clock, say, or memories that are read without one.
    """
    groups = [list(group) for group in outputs]
    outcome = [signal for group in groups for signal in group]
    netlist = Netlist(prepared(module, [*inputs, *outcome]), outcome)
    function = Function(netlist, inputs, [len(group) for group in groups])
    return Machine(
        compile(function.text, f"<{type(module).__name__}>", "exec"),
        tuple(tuple(memory.rows) for memory in netlist.memories),
    )
