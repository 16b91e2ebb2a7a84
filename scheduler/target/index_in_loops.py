"""Index expressions as linear functions of a chunk's loops."""

from collections.abc import Mapping, Sequence

from lathe.frontend.indices.linear import Linear, LoopVariable
from lathe.scheduler.target.chunk import Index


class Bend(Exception):  # noqa: N818 - no error: the chunk is cut there
    """An index is linear on both sides only if loop ``loop`` of a chunk is cut after ``count`` iterations."""

    def __init__(self, loop: int, count: int) -> None:
        super().__init__(loop, count)
        self.loop = loop
        self.count = count


def index_in_loops(
    value: Linear, loops: Sequence[tuple[LoopVariable, range]], environment: Mapping[LoopVariable, int]
) -> Index:
    """A linear expression in the iterations of a chunk's loops, each over a range; the outer loops' values are put in.

    Raises Bend where a division does not come out even for the whole of the ranges.
    """
    constant = value.constant
    coefficients = [0] * len(loops)
    position = {variable: n for n, (variable, _) in enumerate(loops)}
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            if atom in position:
                coefficients[position[atom]] += coefficient
                constant += coefficient * loops[position[atom]][1].start
            else:
                constant += coefficient * environment[atom]
            continue
        inner = index_in_loops(atom.numerator, loops, environment)
        divisor = atom.divisor
        reach = {n: c % divisor * (len(loops[n][1]) - 1) for n, c in enumerate(inner.coefficients) if c % divisor}
        room = divisor - 1 - inner.constant % divisor
        if sum(reach.values()) > room:
            widest = max(reach, key=lambda n: (reach[n] > 0, inner.coefficients[n] % divisor))
            left = room - sum(reach.values()) + reach[widest]
            step = inner.coefficients[widest] % divisor
            raise Bend(widest, min(max(left, 0) // step + 1, len(loops[widest][1]) - 1))
        constant += coefficient * (inner.constant // divisor)
        for n, c in enumerate(inner.coefficients):  # the remainders never carry, so only whole quotients are left
            coefficients[n] += coefficient * (c // divisor)
    return Index(constant, tuple(coefficients))
