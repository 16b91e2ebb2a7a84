"""Computations that need each other's earlier elements: which they are, and the order that makes all of them causal.

The axes of a cycle's computations are taken in the order in which they are declared. The outermost of them, as few as
suffice, are loops around all the computations; at each of their points the computations are carried out one after the
other. That is causal iff every read is of a cell made at a lexicographically earlier point of these loops, or at the
same point by a computation that comes before.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, access_of, limited_operations
from lathe.frontend.expr.errors import CausalityError, TensorError
from lathe.frontend.expr.nodes import Computation, ReadAccess, Tensor
from lathe.frontend.tensor.bounds_checks import check_reads

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@dataclass(frozen=True)
class Cycle:
    """``computations`` in the order in which they are carried out at each point of the outermost ``depth`` axes.

    ``carrying`` are those of these axes along which something is read that is made earlier; the others are free.
    """

    computations: tuple[Computation, ...]
    depth: int
    carrying: tuple[int, ...]


@dataclass(frozen=True)
class _Need:
    """``relation``: from the points of ``reader`` to those of ``maker`` whose cell ``read`` touches (data axes)."""

    reader: Computation
    maker: Computation
    read: ReadAccess
    relation: isl.Map


def check_causality(computation: Computation) -> None:
    """Raises CausalityError if a cycle that a computation closes is not causal; one still open is left alone."""
    for group in strongly_connected([computation]):
        if computation in group:
            if any(read.tensor.is_state and not read.tensor.computation for each in group for read in each.reads):
                return
            if len(group) > 1 or _reads_itself(computation):
                cycle_of(tuple(group))


def check_readers(computation: Computation) -> None:
    """Raises DomainError if what was written before a state was defined reads elements that do not exist.

    That is known of the computations that the given one needs, itself included.
    """
    for group in strongly_connected([computation]):
        for each in group:
            makers = [read.tensor.computation for read in each.reads if read.tensor.is_state]
            if any(maker is not None and maker.where is not None for maker in makers):
                check_reads(each)


def cycles(computations: Iterable[Computation]) -> tuple[Cycle, ...]:
    """The cycles among computations and what these read, producers first."""
    groups = strongly_connected(computations)
    return tuple(cycle_of(tuple(group)) for group in groups if len(group) > 1 or _reads_itself(group[0]))


def _reads_itself(computation: Computation) -> bool:
    return any(read.tensor.computation is computation for read in computation.reads)


def check_defined(tensor: Tensor) -> None:
    """Raises TensorError for a state that nobody has defined."""
    if tensor.computation is None and tensor.is_state:
        raise TensorError(
            f"state {tensor.name!r} must be defined before a program can use it. Say how it is computed with "
            f"define({tensor.name}, ...)."
        )


def strongly_connected(roots: Iterable[Computation]) -> list[list[Computation]]:
    """The computations that ``roots`` need, in groups that need each other, producers first. (Tarjan's algorithm.)"""
    groups: list[list[Computation]] = []
    number: dict[Computation, int] = {}
    low: dict[Computation, int] = {}
    path: list[Computation] = []
    on_path: set[Computation] = set()
    for root in roots:
        if root in number:
            continue
        work = [(root, iter(_makers(root)))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            current, rest = work[-1]
            for maker in rest:
                if maker not in number:
                    number[maker] = low[maker] = len(number)
                    path.append(maker)
                    on_path.add(maker)
                    work.append((maker, iter(_makers(maker))))
                    break
                if maker in on_path:
                    low[current] = min(low[current], number[maker])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[current])
                if low[current] == number[current]:
                    place = path.index(current)
                    groups.append(path[place:])
                    on_path -= set(path[place:])
                    del path[place:]
    return groups


def _makers(computation: Computation) -> list[Computation]:
    found = dict.fromkeys(read.tensor.computation for read in computation.reads)
    return [each for each in found if each is not None]


@lru_cache(maxsize=256)
def cycle_of(group: tuple[Computation, ...]) -> Cycle:
    """The order of the computations of one cycle. Raises CausalityError if there is none, naming two points."""
    names = ", ".join(each.name for each in group)
    needs: list[_Need] = []
    try:
        with limited_operations():
            for reader in group:
                for read in reader.reads:
                    maker = read.tensor.computation
                    if maker is not None and maker in group:
                        needs.append(_Need(reader, maker, read, _relation(reader, read)))
            needs = [each for each in needs if not each.relation.is_empty()]
            most = min(len(each.axes) for each in group)
            for depth in range(most + 1):
                if any(not _late(each, depth).is_empty() for each in needs):
                    break
                order = _in_order(group, [each for each in needs if not _same(each, depth).is_empty()])
                if order is not None:
                    return Cycle(order, depth, _carrying(needs, depth))
            raise _refusal(needs, most)
    except TooManyOperationsError:
        raise CausalityError(
            f"cycle of computations {names} must be one whose causality can be decided within {OPERATIONS_LIMIT} isl "
            "operations, not one that takes more. Read with simpler indices or conditions."
        ) from None


def _relation(reader: Computation, read: ReadAccess) -> isl.Map:
    relation = access_of(reader, read)
    return relation.project_out(IN, len(reader.axes), len(reader.reduce_axes))


def _equal(space: isl.Space, count: int) -> isl.Map:
    order = isl.Map.universe(space)
    for position in range(count):
        order = order.equate(IN, position, OUT, position)
    return order


def _late(need: _Need, depth: int) -> isl.Map:
    """The part of a need whose cell is made at a later point of the first ``depth`` axes."""
    found = isl.Map.empty(need.relation.get_space())
    for level in range(depth):
        order = _equal(need.relation.get_space(), level).order_lt(IN, level, OUT, level)
        found = found.union(need.relation.intersect(order))
    return found


def _same(need: _Need, depth: int) -> isl.Map:
    """The part of a need whose cell is made at the same point of the first ``depth`` axes."""
    return need.relation.intersect(_equal(need.relation.get_space(), depth))


def _carrying(needs: list[_Need], depth: int) -> tuple[int, ...]:
    found = []
    for level in range(depth):
        for need in needs:
            order = _equal(need.relation.get_space(), level).order_gt(IN, level, OUT, level)
            if not need.relation.intersect(order).is_empty():
                found.append(level)
                break
    return tuple(found)


def _in_order(group: tuple[Computation, ...], needs: list[_Need]) -> tuple[Computation, ...] | None:
    """The computations with each after those that it needs, or None where they need each other."""
    before = {each: {need.maker for need in needs if need.reader is each} for each in group}
    order: list[Computation] = []
    while before:
        ready = next((each for each, makers in before.items() if not makers & before.keys()), None)
        if ready is None:
            return None
        order.append(ready)
        del before[ready]
    return tuple(order)


def _refusal(needs: list[_Need], most: int) -> CausalityError:
    """What stands in the way of every order."""
    late = next((need for need in needs if not _late(need, most).is_empty()), None)
    if late is None:
        circle = _circle([need for need in needs if not _same(need, most).is_empty()])
        late, relation = circle[0], _same(circle[0], most)
    else:
        circle = [late]
        relation = _late(late, most)
    first = relation.domain().lexmin()
    point, cell = _values(first), _values(relation.intersect_domain(first).range().lexmax())
    reader, maker = late.reader, late.maker
    where = ", ".join(f"{axis.name}={value}" for axis, value in zip(reader.axes, point, strict=True))
    made = ", ".join(f"{axis.name}={value}" for axis, value in zip(maker.axes, cell, strict=True))
    index = ", ".join(map(str, cell))
    order = ", ".join(axis.name for axis in reader.axes[:most])
    reason = f"is made no earlier, at {maker.name}({made})"
    if len(circle) > 1:
        chain = ", which reads ".join([need.maker.name for need in circle])
        reason = f"is made at the same point by what reads it: {reader.name} reads {chain}"
    return CausalityError(
        f"read {late.read.node} of computation {reader.name!r} must be of a cell that an earlier point makes, in the "
        f"order of axes {order or '(none)'}, not at {reader.name}({where}) of {late.read.tensor.name}[{index}], which "
        f"{reason}. Read an earlier cell, or declare the axes in another order.",
        (reader.name, point),
        (late.read.tensor.name, cell),
    )


def _circle(needs: list[_Need]) -> list[_Need]:
    """Needs of which each maker is the next one's reader, and the last maker the first reader."""
    while any(need.maker not in {each.reader for each in needs} for need in needs):
        needs = [need for need in needs if need.maker in {each.reader for each in needs}]
    path: list[_Need] = []
    current = needs[0].reader
    while True:
        need = next(each for each in needs if each.reader is current)
        seen = next((n for n, each in enumerate(path) if each.reader is current), None)
        if seen is not None:
            return path[seen:]
        path.append(need)
        current = need.maker


def _values(point: isl.Set) -> tuple[int, ...]:
    sample = point.sample_point()
    return tuple(int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET)))
