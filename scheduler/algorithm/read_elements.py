"""Which elements of a dimension are read, by the indices of all reads: from a first on, in steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from lathe.frontend import as_affine
from lathe.frontend.operand import Expr


@dataclass(frozen=True)
class Elements:
    """The elements ``first + step · n`` of a dimension, for ``0 <= n < count``."""

    first: int
    step: int
    count: int


def elements_read(indices: Sequence[Expr], extent: int) -> Elements | None:
    """Those that indices lead to; None where one is not affine, or no element is read."""
    found = [as_affine(index) for index in indices]
    affine = [each for each in found if each is not None]
    if not affine or len(affine) < len(found):
        return None
    some = affine[0].const
    step = gcd(*(gcd(each.const - some, *each.coefficients.values()) for each in affine))
    within = [(max(low, 0), min(high, extent - 1)) for low, high in (each.bounds() for each in affine)]
    low, high = min(low for low, _ in within), max(high for _, high in within)
    if low > high:
        return None  # padding is all that is read
    step = step or 1
    first = low + (some - low) % step
    return Elements(first, step, (high - first) // step + 1) if first <= high else None
