"""The names of ``nodes.py`` and ``operand.py`` under which they were one file."""

from lathe.frontend.nodes import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Const,
    Not,
    Parameter,
    Read,
    Reduce,
    Select,
    Undef,
    axes_of,
    reads_data,
)
from lathe.frontend.operand import BinaryOp, CompareOp, Expr, Operand, ReduceKind, Value, depth, walk

__all__ = [
    "Axis",
    "AxisRef",
    "Binary",
    "BinaryOp",
    "Cast",
    "Compare",
    "CompareOp",
    "Const",
    "Expr",
    "Not",
    "Operand",
    "Parameter",
    "Read",
    "Reduce",
    "ReduceKind",
    "Select",
    "Undef",
    "Value",
    "axes_of",
    "depth",
    "reads_data",
    "walk",
]
