"""Linear expressions over loop variables, and bounds built from them with min, max and floor division.

Code generation needs few operations on such expressions but needs them fast, so they are plain Python integers
rather than isl objects; isl decides legality (``scheduler/legality/verify_schedule.py``), and tests compare the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal


class LoopVariable:
    """A loop of a loop nest, compared by identity: its name, trip count and kind."""

    __slots__ = ("extent", "kind", "name")

    def __init__(self, name: str, extent: int, kind: str = "data") -> None:
        self.name = name
        self.extent = extent
        self.kind = kind

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FloorDivision:
    """``floor(numerator / divisor)`` that is not linear; an atom of linear expressions, like a variable."""

    numerator: "Linear"
    divisor: int

    def __repr__(self) -> str:
        return f"(({self.numerator}) // {self.divisor})"


Atom = LoopVariable | FloorDivision
Box = Mapping[LoopVariable, tuple[int, int]]  # inclusive ranges


class Linear:
    """``constant + sum(coefficient * atom)``; immutable, with arithmetic and exact ranges over boxes."""

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, constant: int = 0, terms: Mapping[Atom, int] | None = None) -> None:
        self.constant = constant
        self.terms: dict[Atom, int] = {atom: c for atom, c in terms.items() if c} if terms else {}
        self._hash: int | None = None

    @classmethod
    def _from_terms(cls, constant: int, terms: dict[Atom, int]) -> "Linear":
        """An expression of terms without zero coefficients; ``terms`` may be shared, as expressions are immutable."""
        linear = cls.__new__(cls)
        linear.constant, linear.terms, linear._hash = constant, terms, None
        return linear

    @staticmethod
    def of(atom: Atom, coefficient: int = 1) -> "Linear":
        return Linear(0, {atom: coefficient})

    def __add__(self, other: "Linear | int") -> "Linear":
        if isinstance(other, int):
            return self._from_terms(self.constant + other, self.terms)
        constant = self.constant + other.constant
        if not other.terms:
            return self._from_terms(constant, self.terms)
        if not self.terms:
            return self._from_terms(constant, other.terms)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + coefficient
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return self._from_terms(constant, terms)

    def __sub__(self, other: "Linear | int") -> "Linear":
        return self + (other * -1 if isinstance(other, Linear) else -other)

    def __mul__(self, factor: int) -> "Linear":
        if factor == 1 or not factor:
            return self._from_terms(self.constant, self.terms) if factor else self._from_terms(0, {})
        return self._from_terms(self.constant * factor, {atom: c * factor for atom, c in self.terms.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.constant == other.constant and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.constant, frozenset(self.terms.items())))
        return self._hash

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def range(self, box: Box) -> tuple[int, int]:
        """Smallest and largest value over a box (exact unless floor divisions share variables with other terms).

        A remainder, ``x - d * (x // d)``, is recognised and bounded by its divisor.
        """
        low = high = self.constant
        remainder: tuple[FloorDivision, int] | None = None
        for atom, coefficient in self.terms.items():
            if isinstance(atom, LoopVariable):
                first, last = box[atom]
            else:
                first, last = atom.numerator.range(box)
                first, last = first // atom.divisor, last // atom.divisor
                times, rest = divmod(-coefficient, atom.divisor)
                if not rest and any(
                    self.terms.get(part, 0) * times * c > 0 for part, c in atom.numerator.terms.items()
                ):
                    remainder = atom, times
            if coefficient > 0:
                low += coefficient * first
                high += coefficient * last
            else:
                low += coefficient * last
                high += coefficient * first
        if remainder is not None:
            atom, times = remainder
            others = (self - atom.numerator * times + Linear.of(atom, times * atom.divisor)).range(box)
            stride = gcd(atom.divisor, *atom.numerator.terms.values())
            first = atom.numerator.constant % stride
            ends = times * first, times * (atom.divisor - stride + first)
            low, high = max(low, others[0] + min(ends)), min(high, others[1] + max(ends))
        return low, high

    def value(self, environment: Mapping[LoopVariable, int]) -> int:
        total = self.constant
        if not self.terms:
            return total
        for atom, coefficient in self.terms.items():
            if isinstance(atom, LoopVariable):
                total += coefficient * environment[atom]
            else:
                total += coefficient * (atom.numerator.value(environment) // atom.divisor)
        return total

    def variables(self) -> set[LoopVariable]:
        found: set[LoopVariable] = set()
        for atom in self.terms:
            if isinstance(atom, LoopVariable):
                found.add(atom)
            else:
                found |= atom.numerator.variables()
        return found

    def substitute(self, replacement: Callable[[LoopVariable], "Linear | None"]) -> "Linear":
        """Replace variables by linear expressions; a variable for which the callable returns None stays."""
        result = Linear(self.constant)
        for atom, coefficient in self.terms.items():
            if isinstance(atom, LoopVariable):
                new = replacement(atom)
                result += Linear.of(atom, coefficient) if new is None else new * coefficient
            else:
                result += floor_divide(atom.numerator.substitute(replacement), atom.divisor) * coefficient
        return result

    def __repr__(self) -> str:
        text = ""
        for atom, coefficient in self.terms.items():
            sign = "-" if coefficient < 0 else "+" if text else ""
            size = abs(coefficient)
            factor = f"{atom}" if size == 1 else f"{size}*{atom}"
            text += f" {sign} {factor}" if text else f"{sign}{factor}"
        if not text:
            return str(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


def floor_divide(numerator: Linear, divisor: int) -> Linear:
    """``floor(numerator / divisor)``, linear where every coefficient is a multiple of the divisor."""
    assert divisor > 0, f"floor division by {divisor}"
    whole = Linear(numerator.constant // divisor)
    rest = Linear(numerator.constant % divisor)
    for atom, coefficient in numerator.terms.items():
        if coefficient % divisor == 0:
            whole += Linear.of(atom, coefficient // divisor)
        else:
            rest += Linear.of(atom, coefficient)
    if rest.is_constant:
        return whole
    rest -= rest.constant % gcd(divisor, *rest.terms.values())  # too small to affect the quotient
    return whole + Linear.of(FloorDivision(rest, divisor))


@dataclass(frozen=True)
class Extremum:
    """``min`` or ``max`` of bounds, until partitioning determines which of them it is."""

    kind: Literal["min", "max"]
    bounds: "tuple[Bound, ...]"

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(str(bound) for bound in self.bounds)})"


Bound = Linear | Extremum


def add(left: Bound, right: Bound) -> Bound:
    """Sum of two bounds; extrema are moved outwards so that their leaves stay linear."""
    if isinstance(left, Extremum):
        return Extremum(left.kind, tuple(add(bound, right) for bound in left.bounds))
    if isinstance(right, Extremum):
        return Extremum(right.kind, tuple(add(left, bound) for bound in right.bounds))
    return left + right


def scale(bound: Bound, factor: int) -> Bound:
    """A bound times an integer; a negative factor swaps min and max."""
    if isinstance(bound, Linear):
        return bound * factor
    kind: Literal["min", "max"] = bound.kind if factor >= 0 else ("max" if bound.kind == "min" else "min")
    return Extremum(kind, tuple(scale(inner, factor) for inner in bound.bounds))


def map_leaves(bound: Bound, change: Callable[[Linear], Linear]) -> Bound:
    """The bound with a monotone function applied to every linear expression in it."""
    if isinstance(bound, Linear):
        return change(bound)
    return Extremum(bound.kind, tuple(map_leaves(inner, change) for inner in bound.bounds))


def divide(bound: Bound, divisor: int) -> Bound:
    """Floor division of a bound by a positive integer (monotone, so it distributes over extrema)."""
    return map_leaves(bound, lambda linear: floor_divide(linear, divisor))


def bound_range(bound: Bound, box: Box) -> tuple[int, int]:
    """An interval that contains every value of the bound over the box."""
    if isinstance(bound, Linear):
        return bound.range(box)
    ranges = [bound_range(inner, box) for inner in bound.bounds]
    pick = min if bound.kind == "min" else max
    return pick(low for low, _ in ranges), pick(high for _, high in ranges)


def bound_value(bound: Bound, environment: Mapping[LoopVariable, int]) -> int:
    if isinstance(bound, Linear):
        return bound.value(environment)
    pick = min if bound.kind == "min" else max
    return pick(bound_value(inner, environment) for inner in bound.bounds)


def bound_substitute(bound: Bound, replacement: Callable[[LoopVariable], Linear | None]) -> Bound:
    """Replace variables by linear expressions; a variable for which the callable returns None stays."""
    return map_leaves(bound, lambda linear: linear.substitute(replacement))


def bound_variables(bound: Bound) -> set[LoopVariable]:
    if isinstance(bound, Linear):
        return bound.variables()
    return set().union(*(bound_variables(inner) for inner in bound.bounds))


def extremum(kind: Literal["min", "max"], bounds: list[Bound], box: Box) -> Bound:
    """``min`` or ``max`` of bounds, without arguments that are redundant over the box.

    >>> i = LoopVariable("i", 4)
    >>> extremum("min", [Linear.of(i, 16) + 15, Linear(59)], {i: (0, 3)})
    min(16*i + 15, 59)
    >>> extremum("min", [Linear.of(i, 16) + 15, Linear(63)], {i: (0, 3)})
    16*i + 15
    """
    flat: list[Bound] = []
    for bound in bounds:
        flat.extend(bound.bounds if isinstance(bound, Extremum) and bound.kind == kind else (bound,))
    needed: list[Bound] = []
    for candidate in flat:
        if any(is_redundant(candidate, other, kind, box) for other in needed):
            continue
        needed = [other for other in needed if not is_redundant(other, candidate, kind, box)]
        needed.append(candidate)
    return needed[0] if len(needed) == 1 else Extremum(kind, tuple(needed))


def is_redundant(candidate: Bound, other: Bound, kind: Literal["min", "max"], box: Box) -> bool:
    """Whether ``other`` is at least as extreme as ``candidate`` everywhere in the box."""
    return at_most(other, candidate, box) if kind == "min" else at_most(candidate, other, box)


def at_most(left: Bound, right: Bound, box: Box) -> bool:
    """Whether ``left <= right`` everywhere in the box; False if comparing pairs of arguments does not prove it."""
    return largest_difference(left, right, box) <= 0


def largest_difference(left: Bound, right: Bound, box: Box) -> int:
    """An upper bound of ``left - right`` over the box: exact for linear expressions, else from pairs of arguments."""
    if isinstance(right, Extremum) and right.kind == "min":
        return max(largest_difference(left, inner, box) for inner in right.bounds)
    if isinstance(left, Extremum) and left.kind == "max":
        return max(largest_difference(inner, right, box) for inner in left.bounds)
    if isinstance(left, Extremum):
        return min(largest_difference(inner, right, box) for inner in left.bounds)
    if isinstance(right, Extremum):
        return min(largest_difference(left, inner, box) for inner in right.bounds)
    return (left - right).range(box)[1]
