"""Amaranth's netlist, and all other private parts of Amaranth that Lathe uses; no other module may import them.

Amaranth writes Verilog from a netlist of word-wide cells, `amaranth.hdl._nir`, which `amaranth.hdl._ir` builds from an
elaborated design. It is stable within 0.5, which docs/rtl-engines.md relies on and `.ci/amaranth-versions` checks. The
classes below are declared as Any, since Amaranth does not annotate their attributes.
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

# Combinational cells: operator; assignments under If and Switch; priority of conditions; patterns; variable slice.
Operator: Any = _nir.Operator
AssignmentList: Any = _nir.AssignmentList
PriorityMatch: Any = _nir.PriorityMatch
Matches: Any = _nir.Matches
Part: Any = _nir.Part
# Cells with state.
FlipFlop: Any = _nir.FlipFlop
SyncReadPort: Any = _nir.SyncReadPort
SyncWritePort: Any = _nir.SyncWritePort


def prepared(module: Elaboratable, ports: Iterable[Signal]) -> Any:
    """Elaborate a module, with these signals as ports, for a netlist or for Amaranth's simulator."""
    unique = {id(signal): signal for signal in ports}
    return Fragment.get(module, None).prepare(ports=list(unique.values()), hierarchy=("top",))


def netlist_of(design: Any) -> Any:
    """The netlist of a prepared design.

    ``cells``: the first is the top with its ports; ``signals``: the value of each signal. A value is a sequence of
    nets, each a number: 0 and 1 are constants, others are ``cell << 16 | bit``.
    """
    netlist = _nir.Netlist()
    _ir._emit_netlist(netlist, design)
    netlist.resolve_all_nets()
    return netlist


def rtlil_of(module: Elaboratable, ports: Iterable[Signal], name: str) -> tuple[str, int]:
    """A module as RTLIL, Yosys's language, without the contents of its memories, which must be zeros; their number."""
    netlist = _ir.build_netlist(Fragment.get(module, None), ports=list(ports), name=name)
    memories = sum(isinstance(cell, _nir.Memory) for cell in netlist.cells)
    return _rtlil(netlist), memories


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's RTLIL emitter without the contents of memories.

    Amaranth lists every word of every memory, all of them zero. Writing, reading and compiling these zeros would take
    most of the time in which a machine is Verilated.
    """

    def emit_memory(self, _index: int, cell: Any) -> None:
        """Check that the contents are zeros, and emit nothing."""
        assert not any(cell.init), "memories must be initialised with zeros"


def _rtlil(netlist: Any) -> str:
    """A netlist as RTLIL."""
    names, empty, design = SignalDict(), rtlil.EmptyModuleChecker(netlist), rtlil.Design(emit_src=False)
    for index, module in enumerate(netlist.modules):
        if not empty.is_empty(index):
            builder = design.module(".".join(module.name), src_loc=module.src_loc)
            if index == 0:
                builder.attribute("top", 1)
            _Emitter(builder, netlist, module, names, empty_checker=empty).emit()
    return str(design)
