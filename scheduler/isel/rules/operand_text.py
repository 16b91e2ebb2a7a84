"""How the constraints of rules quote what they were given."""

from lathe.scheduler.isel.chunk import LaneRange, Operand, VectorView


def lanes(covered: LaneRange, view: VectorView) -> str:
    """Lanes of elements, and the loops that run along them."""
    if covered.broadcast:
        return "one value for all"
    along = " and ".join(view.names[loop] for loop, _ in covered.loops)
    return f"{covered.first}..{covered.first + covered.count - 1}" + (f" along {along}" if along else "")


def conditions(operand: Operand) -> str:
    """The conditions under which an operand is read."""
    return " and ".join(str(each) if holds else f"not ({each})" for each, holds in operand.guards)
