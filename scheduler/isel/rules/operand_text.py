"""Texts of lanes and conditions of operands, for the constraints that rules report."""

from lathe.scheduler.isel.chunk import LaneRange, Operand, VectorView


def lanes(covered: LaneRange, view: VectorView) -> str:
    """The lanes covered, and the loops along them: ``0..15 along i``."""
    if covered.broadcast:
        return "a broadcast value"
    along = " and ".join(view.names[loop] for loop, _ in covered.loops)
    return f"{covered.first}..{covered.first + covered.count - 1}" + (f" along {along}" if along else "")


def conditions(operand: Operand) -> str:
    """The conditions under which an operand is read, joined by "and"."""
    return " and ".join(str(each) if holds else f"not ({each})" for each, holds in operand.guards)
