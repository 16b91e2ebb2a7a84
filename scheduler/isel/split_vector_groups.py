"""Loops that run through groups of elements which adjoin in DRAM, split where groups, or bits of numbers in them, end.

A loop along columns stays within a group or moves by whole ones. Where the elements of a group do not lie in order
(``PhysicalLayout.positions``), a loop within it is as many as its number has bits.
"""

from collections.abc import Callable

from lathe.scheduler.isel.match_failures import PartialGroupMismatch, RuleMismatch
from lathe.scheduler.layout.physical_layout import PhysicalLayout


def split_groups(
    physical: PhysicalLayout,
    dim: int,
    coefficients: list[int],
    constant: int,
    extents: list[int],
    scales: list[int],
    split: Callable[[int, int], None],
    name: str,
) -> None:
    """Split loops so that each either stays within a group of adjoining elements or moves by whole groups.

    Raises Uneven for a loop that ends within a group: its last part is a chunk of its own.
    """
    step, block = physical.step(dim), physical.block(dim)
    reach = constant % step
    for coefficient, loop in sorted((c, n) for n, c in enumerate(coefficients) if c % step and extents[n] > 1):
        last = reach + coefficient * (extents[loop] - 1)
        if coefficient > 0 and last < step:
            reach = last
        elif coefficient > 0 and step % coefficient == 0 and reach < coefficient:
            total = coefficient * extents[loop]
            if -(-total // block) * block % step:
                whole = total // step * step // coefficient
                raise PartialGroupMismatch(
                    f"index along the lanes of {name} must end with a group of {step}", loop, whole * scales[loop]
                )
            split(loop, step // coefficient)
            return
        else:
            constraint = (
                f"index along the lanes of {name} must stay within the {step} values that adjoin in dram, or start at "
                f"a multiple of them to run past their end, not move by {coefficient} from {constant % step}"
            )
            start = constant % step
            if coefficient > 0 and reach - start < coefficient and (step - start) % coefficient == 0:
                raise PartialGroupMismatch(constraint, loop, (step - start) // coefficient * scales[loop])
            raise RuleMismatch(constraint, kind="machine")


def split_bits(
    physical: PhysicalLayout,
    coefficients: list[int],
    constant: int,
    extents: list[int],
    scales: list[int],
    split: Callable[[int, int], None],
    name: str,
) -> None:
    """Split loops within groups whose elements do not lie in order, so that each is a bit of an element's number.

    Raises Uneven for a loop of another number of elements than a power of two, or one that begins in the midst of it.
    """
    cols = physical.lanes.cols
    assert cols is not None, f"no elements of {physical} have numbers"
    step, block = physical.step(cols), physical.block(cols)
    for loop in range(len(extents)):
        moved, extent = coefficients[loop], extents[loop]
        if extent == 1 or moved % step == 0 or moved % block:
            continue
        first, unit = constant % step // block, moved // block
        together = 1 << extent.bit_length() - 1
        if first // unit:  # so many until a higher bit changes
            together = min(together, (first // unit) & -(first // unit))
        if unit & unit - 1:
            raise RuleMismatch(
                f"loops along the columns of {name} must move by 1, 2, 4, ... blocks of {block}, which do not lie in "
                f"order, not by {unit}",
                kind="machine",
            )
        if together < extent:
            raise PartialGroupMismatch(
                f"index along the columns of {name} must move through a power of two of blocks of {block}, which do "
                f"not lie in order, not through {extent} from number {first} on",
                loop,
                together * scales[loop],
            )
        rest = loop
        while extents[rest] > 2:
            split(rest, extents[rest] // 2)
            rest = len(extents) - 1
