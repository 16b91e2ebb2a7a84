"""Recurrences: strongly connected components of computations, and a causal execution order for each.

The outermost axes of the computations, in order of declaration and as few as suffice, become loops around all of them;
at each point of these loops the computations execute one after the other. That is causal iff every read is of an
element computed at a lexicographically earlier point of these loops, or at the same point by an earlier computation.
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
class Recurrence:
    """A recurrence: its computations in the order in which they execute at each point of the outermost ``depth`` axes.

    ``carrying`` are those of these axes that carry a dependence; the others are parallel.
    """

    computations: tuple[Computation, ...]
    depth: int
    carrying: tuple[int, ...]


@dataclass(frozen=True)
class _Dependence:
    """A dependence: ``relation`` maps points of ``consumer`` to those of ``producer`` that it reads (data axes)."""

    consumer: Computation
    producer: Computation
    read: ReadAccess
    relation: isl.Map


def check_causality(computation: Computation) -> None:
    """Raise CausalityError if the recurrence of a computation is not causal; not checked while a state is undefined."""
    for group in strongly_connected([computation]):
        if computation in group:
            if any(read.tensor.is_state and not read.tensor.computation for each in group for read in each.reads):
                return
            if len(group) > 1 or _reads_itself(computation):
                recurrence_of(tuple(group))


def check_readers(computation: Computation) -> None:
    """Raise DomainError for reads outside the domain of a state, which was unknown when the readers were created.

    Checks the recurrences that the given computation depends on, its own included.
    """
    for group in strongly_connected([computation]):
        for each in group:
            producers = [read.tensor.computation for read in each.reads if read.tensor.is_state]
            if any(producer is not None and producer.where is not None for producer in producers):
                check_reads(each)


def find_recurrences(computations: Iterable[Computation]) -> tuple[Recurrence, ...]:
    """The recurrences among computations and those that they depend on, producers first."""
    groups = strongly_connected(computations)
    return tuple(recurrence_of(tuple(group)) for group in groups if len(group) > 1 or _reads_itself(group[0]))


def _reads_itself(computation: Computation) -> bool:
    return any(read.tensor.computation is computation for read in computation.reads)


def check_defined(tensor: Tensor) -> None:
    """Raise TensorError for a state without a definition."""
    if tensor.computation is None and tensor.is_state:
        raise TensorError(
            f"state {tensor.name!r} must be defined before a program can use it. Define it with "
            f"define({tensor.name}, ...)."
        )


def strongly_connected(roots: Iterable[Computation]) -> list[list[Computation]]:
    """Strongly connected components of ``roots`` and what they depend on, producers first. (Tarjan's algorithm.)"""
    groups: list[list[Computation]] = []
    number: dict[Computation, int] = {}
    low: dict[Computation, int] = {}
    path: list[Computation] = []
    on_path: set[Computation] = set()
    for root in roots:
        if root in number:
            continue
        work = [(root, iter(_producers(root)))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            current, unvisited = work[-1]
            for producer in unvisited:
                if producer not in number:
                    number[producer] = low[producer] = len(number)
                    path.append(producer)
                    on_path.add(producer)
                    work.append((producer, iter(_producers(producer))))
                    break
                if producer in on_path:
                    low[current] = min(low[current], number[producer])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[current])
                if low[current] == number[current]:
                    position = path.index(current)
                    groups.append(path[position:])
                    on_path -= set(path[position:])
                    del path[position:]
    return groups


def _producers(computation: Computation) -> list[Computation]:
    found = dict.fromkeys(read.tensor.computation for read in computation.reads)
    return [each for each in found if each is not None]


@lru_cache(maxsize=256)
def recurrence_of(group: tuple[Computation, ...]) -> Recurrence:
    """The execution order of a recurrence. Raises CausalityError, with two points, if there is none."""
    names = ", ".join(each.name for each in group)
    dependences: list[_Dependence] = []
    try:
        with limited_operations():
            for consumer in group:
                for read in consumer.reads:
                    producer = read.tensor.computation
                    if producer is not None and producer in group:
                        dependences.append(_Dependence(consumer, producer, read, _relation(consumer, read)))
            dependences = [each for each in dependences if not each.relation.is_empty()]
            most = min(len(each.axes) for each in group)
            for depth in range(most + 1):
                if any(not _violated(each, depth).is_empty() for each in dependences):
                    break
                order = _topological(group, [each for each in dependences if not _within_point(each, depth).is_empty()])
                if order is not None:
                    return Recurrence(order, depth, _carrying(dependences, depth))
            raise _causality_error(dependences, most)
    except TooManyOperationsError:
        raise CausalityError(
            f"Cannot decide whether the recurrence of {names} is causal: that takes more than {OPERATIONS_LIMIT} isl "
            "operations. Read with simpler indices or conditions."
        ) from None


def _relation(consumer: Computation, read: ReadAccess) -> isl.Map:
    relation = access_of(consumer, read)
    return relation.project_out(IN, len(consumer.axes), len(consumer.reduce_axes))


def _equal(space: isl.Space, count: int) -> isl.Map:
    order = isl.Map.universe(space)
    for position in range(count):
        order = order.equate(IN, position, OUT, position)
    return order


def _violated(dependence: _Dependence, depth: int) -> isl.Map:
    """The part of a dependence whose producer executes at a later point of the first ``depth`` axes."""
    found = isl.Map.empty(dependence.relation.get_space())
    for level in range(depth):
        order = _equal(dependence.relation.get_space(), level).order_lt(IN, level, OUT, level)
        found = found.union(dependence.relation.intersect(order))
    return found


def _within_point(dependence: _Dependence, depth: int) -> isl.Map:
    """The part of a dependence whose producer executes at the same point of the first ``depth`` axes."""
    return dependence.relation.intersect(_equal(dependence.relation.get_space(), depth))


def _carrying(dependences: list[_Dependence], depth: int) -> tuple[int, ...]:
    found = []
    for level in range(depth):
        for dependence in dependences:
            order = _equal(dependence.relation.get_space(), level).order_gt(IN, level, OUT, level)
            if not dependence.relation.intersect(order).is_empty():
                found.append(level)
                break
    return tuple(found)


def _topological(group: tuple[Computation, ...], dependences: list[_Dependence]) -> tuple[Computation, ...] | None:
    """The computations, producers before consumers, or None if they depend on each other."""
    before = {each: {one.producer for one in dependences if one.consumer is each} for each in group}
    order: list[Computation] = []
    while before:
        ready = next((each for each, producers in before.items() if not producers & before.keys()), None)
        if ready is None:
            return None
        order.append(ready)
        del before[ready]
    return tuple(order)


def _causality_error(dependences: list[_Dependence], most: int) -> CausalityError:
    """The error for dependences that no execution order satisfies, with an example."""
    example = next((each for each in dependences if not _violated(each, most).is_empty()), None)
    if example is None:
        chain = _circular_chain([each for each in dependences if not _within_point(each, most).is_empty()])
        example, relation = chain[0], _within_point(chain[0], most)
    else:
        chain = [example]
        relation = _violated(example, most)
    first = relation.domain().lexmin()
    point, cell = _coordinates(first), _coordinates(relation.intersect_domain(first).range().lexmax())
    consumer, producer, tensor = example.consumer, example.producer, example.read.tensor.name
    where = ", ".join(f"{axis.name}={value}" for axis, value in zip(consumer.axes, point, strict=True))
    computed = ", ".join(f"{axis.name}={value}" for axis, value in zip(producer.axes, cell, strict=True))
    index = ", ".join(map(str, cell))
    order = ", ".join(axis.name for axis in consumer.axes[:most])
    reason = f"is computed no earlier, at {producer.name}({computed})"
    if len(chain) > 1:
        names = ", which reads ".join([dependence.producer.name for dependence in chain])
        reason = f"depends on it at the same point: {consumer.name} reads {names}"
    return CausalityError(
        f"read {example.read.node} of computation {consumer.name!r} must be of an element computed at an earlier "
        f"point, in the order of axes {order or '(none)'}: {consumer.name}({where}) reads {tensor}[{index}], which "
        f"{reason}. Read an earlier element, or declare the axes in another order.",
        (consumer.name, point),
        (tensor, cell),
    )


def _circular_chain(dependences: list[_Dependence]) -> list[_Dependence]:
    """A circular chain of dependences: the producer of each is the consumer of the next."""
    while any(one.producer not in {each.consumer for each in dependences} for one in dependences):
        dependences = [one for one in dependences if one.producer in {each.consumer for each in dependences}]
    path: list[_Dependence] = []
    current = dependences[0].consumer
    while True:
        dependence = next(each for each in dependences if each.consumer is current)
        seen = next((n for n, each in enumerate(path) if each.consumer is current), None)
        if seen is not None:
            return path[seen:]
        path.append(dependence)
        current = dependence.producer


def _coordinates(point: isl.Set) -> tuple[int, ...]:
    sample = point.sample_point()
    return tuple(int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET)))
