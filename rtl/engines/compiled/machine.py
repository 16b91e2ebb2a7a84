"""A module compiled to a Python function, which can be started any number of times."""

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
    """A compiled module: its code, and the initial `contents` of each memory."""

    code: CodeType
    contents: tuple[tuple[int, ...], ...]

    def start(self) -> Generator[Any, Any, None]:
        """A machine in its initial state. It receives the inputs of a cycle, and yields the outputs of that cycle."""
        scope: dict[str, Any] = {}
        exec(self.code, scope)
        running: Generator[Any, Any, None] = scope[NAME](*(list(content) for content in self.contents))
        next(running)
        return running


def compiled(module: Elaboratable, inputs: Sequence[Signal], outputs: Sequence[Iterable[Signal]]) -> Machine:
    """Compile a module to a function of `inputs`, in this order; other inputs keep their initial value.

    It yields a tuple of values for each group of `outputs`, as unsigned numbers. Raises AssertionError for modules with
    features that docs/rtl-engines.md does not list, such as a second clock or memories with asynchronous read ports.
    """
    groups = [list(group) for group in outputs]
    outcome = [signal for group in groups for signal in group]
    netlist = Netlist(prepared(module, [*inputs, *outcome]), outcome)
    function = Function(netlist, inputs, [len(group) for group in groups])
    return Machine(
        compile(function.text, f"<{type(module).__name__}>", "exec"),
        tuple(tuple(memory.rows) for memory in netlist.memories),
    )
