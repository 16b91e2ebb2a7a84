"""Splitting of loops along columns at the boundaries of vector groups (vectors that are contiguous in DRAM).

Afterwards a loop either stays within a group or moves by whole groups. If the vectors of a group are permuted
(``PhysicalLayout.positions``), a loop within it is split further into one loop of 2 for each bit of their number.
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
    """Split loops so that each either stays within a group of contiguous vectors or moves by whole groups.

    Raises PartialGroupMismatch for a loop that ends within a group: its tail must be a chunk of its own.
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
                    f"index along the lanes of {name} must end at a multiple of {step}", loop, whole * scales[loop]
                )
            split(loop, step // coefficient)
            return
        else:
            constraint = (
                f"index along the lanes of {name} must stay within a group of {step} values, contiguous in dram, or "
                f"start with a group to run past its end, not move by {coefficient} from {constant % step}"
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
    """Split loops within permuted groups into loops of 2, one for each bit of a vector's number in the group.

    Raises PartialGroupMismatch for a loop whose vectors are not an aligned power of two.
    """
    cols = physical.lanes.cols
    assert cols is not None, f"{physical} has no groups of columns"
    step, block = physical.step(cols), physical.block(cols)
    for loop in range(len(extents)):
        moved, extent = coefficients[loop], extents[loop]
        if extent == 1 or moved % step == 0 or moved % block:
            continue
        first, unit = constant % step // block, moved // block
        together = 1 << extent.bit_length() - 1
        if first // unit:  # as many as share the higher bits of their number
            together = min(together, (first // unit) & -(first // unit))
        if unit & unit - 1:
            raise RuleMismatch(
                f"loops along the columns of {name} must move by 1, 2, 4, ... blocks of {block}, since blocks are "
                f"permuted in memory, not by {unit}",
                kind="machine",
            )
        if together < extent:
            raise PartialGroupMismatch(
                f"index along the columns of {name} must cover an aligned power of two of blocks of {block}, since "
                f"blocks are permuted in memory, not {extent} from block {first} on",
                loop,
                together * scales[loop],
            )
        rest = loop
        while extents[rest] > 2:
            split(rest, extents[rest] // 2)
            rest = len(extents) - 1
