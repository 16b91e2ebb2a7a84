"""Amaranth's netlist: the one file that uses parts of Amaranth which are not public, and all that are used.

Amaranth writes Verilog from a netlist of word-wide cells, `amaranth.hdl._nir`, which `amaranth.hdl._ir` makes of an
elaborated design. It is stable within 0.5, which docs/rtl-engines.md relies on and `.ci/amaranth-versions` checks. The
types below have the attributes that Amaranth gives them; they carry no types, so that mypy takes them for Any.
"""

from collections.abc import Iterable
from typing import Any

from amaranth import Elaboratable, Signal
from amaranth._toolchain.yosys import YosysError, find_yosys
from amaranth.back import rtlil
from amaranth.hdl import Fragment, _ir, _nir
from amaranth.hdl._ast import SignalDict

__all__ = [
    "AssignmentList",
    "FlipFlop",
    "Matches",
    "Operator",
    "Part",
    "PriorityMatch",
    "SyncReadPort",
    "SyncWritePort",
    "YosysError",
    "find_yosys",
    "netlist_of",
    "prepared",
    "rtlil_of",
]

# Cells: an operator on values; what If and Switch assign; which condition comes first; patterns; a slice by a variable.
Operator: Any = _nir.Operator
AssignmentList: Any = _nir.AssignmentList
PriorityMatch: Any = _nir.PriorityMatch
Matches: Any = _nir.Matches
Part: Any = _nir.Part
# Cells with a state.
FlipFlop: Any = _nir.FlipFlop
SyncReadPort: Any = _nir.SyncReadPort
SyncWritePort: Any = _nir.SyncWritePort


def prepared(module: Elaboratable, ports: Iterable[Signal]) -> Any:
    """A module elaborated, with these signals as ports: what a netlist is made from, or a simulator."""
    unique = {id(signal): signal for signal in ports}
    return Fragment.get(module, None).prepare(ports=list(unique.values()), hierarchy=("top",))


def netlist_of(design: Any) -> Any:
    """The netlist of a prepared design.

    ``cells``, of which the first is the top with its ports; ``signals``, from signals to values. A value is a sequence
    of nets, each a number: 0 and 1 are constants, others are ``cell << 16 | bit``.
    """
    netlist = _nir.Netlist()
    _ir._emit_netlist(netlist, design)
    netlist.resolve_all_nets()
    return netlist


def rtlil_of(module: Elaboratable, ports: Iterable[Signal], name: str) -> tuple[str, int]:
    """A module in Yosys's language, without the contents of memories, which must be zeros; and how many there are."""
    netlist = _ir.build_netlist(Fragment.get(module, None), ports=list(ports), name=name)
    memories = sum(isinstance(cell, _nir.Memory) for cell in netlist.cells)
    return _rtlil(netlist), memories


class _Emitter(rtlil.ModuleEmitter):
    """Writes a module as Amaranth does, but for the memories' contents.

    Amaranth would list every word of every memory, which are zero all. With the list, most of the time until a machine
    is Verilated goes into writing, reading and compiling zeros.
    """

    def emit_memory(self, _index: int, cell: Any) -> None:
        """Nothing but the check."""
        assert not any(cell.init), "memories begin with zeros"


def _rtlil(netlist: Any) -> str:
    """A netlist in Yosys's language."""
    names, empty, design = SignalDict(), rtlil.EmptyModuleChecker(netlist), rtlil.Design(emit_src=False)
    for index, module in enumerate(netlist.modules):
        if not empty.is_empty(index):
            builder = design.module(".".join(module.name), src_loc=module.src_loc)
            if index == 0:
                builder.attribute("top", 1)
            _Emitter(builder, netlist, module, names, empty_checker=empty).emit()
    return str(design)
