"""The exact dependences of a program, as isl maps."""

from dataclasses import dataclass
from typing import Literal

import islpy as isl

from lathe.configs.html_repr import repr_html
from lathe.frontend.arith.polyhedra import access_of, domain_of, is_exact
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView

IN, OUT = isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class Dependence:
    """Instances of ``consumer`` that depend on instances of ``producer``.

    ``kind``: "flow" (the consumer reads the element of ``tensor`` that the producer writes) or "reduction" (both update
    the same element; updates commute, so their order is free, but they cannot run at the same time). ``relation`` is an
    isl map from points of the producer's data axes (all axes for a reduction) to points of the consumer. ``distance``
    is consumer minus producer along each data axis, if that is uniform, else None. ``exact`` is false if some pairs may
    not depend: conditions and indices that are not affine are over-approximated.
    """

    producer: str
    consumer: str
    tensor: str
    kind: Literal["flow", "reduction"]
    relation: isl.Map
    distance: tuple[int, ...] | None
    exact: bool = True

    _repr_html_ = repr_html

    def __str__(self) -> str:
        if self.kind == "reduction":
            return f"{self.producer} -> {self.consumer} reduction on {self.tensor}"
        apart = "no uniform distance" if self.distance is None else f"distance {self.distance}"
        return f"{self.producer} -> {self.consumer} flow on {self.tensor}, {apart}"


def dependences(schedule: ScheduleView) -> tuple[Dependence, ...]:
    """The dependences among the stages, ordered by consumer.

    Two reads of one tensor at different indices are two dependences. Reads of inputs depend on nothing.
    """
    found: list[Dependence] = []
    for stage in schedule.stages:
        computation = stage.state.computation
        for read in computation.reads:
            producer = schedule.producer(read.tensor)
            if producer is None:
                continue
            with answerable(f"how {stage.name} depends on {producer.name}"):
                relation = access_of(computation, read).reverse().set_tuple_name(IN, producer.name).coalesce()
                distance = _distance(relation, len(computation.axes))
            found.append(
                Dependence(
                    producer.name, stage.name, read.tensor.name, "flow", relation, distance, is_exact(computation, read)
                )
            )
        if computation.reduce_axes:
            domain = domain_of(computation)
            relation = isl.Map.from_domain_and_range(domain, domain)
            for position in range(len(computation.axes)):
                relation = relation.equate(IN, position, OUT, position)
            relation = relation.intersect(isl.Map.lex_lt(domain.get_space()))
            if not relation.is_empty():
                found.append(Dependence(stage.name, stage.name, stage.tensor.name, "reduction", relation, None))
    return tuple(found)


def _distance(relation: isl.Map, rank: int) -> tuple[int, ...] | None:
    """Consumer minus producer along the data axes, if both have as many and it is uniform."""
    if relation.dim(IN) != rank or relation.is_empty():
        return None
    relation = relation.project_out(OUT, rank, relation.dim(OUT) - rank)
    name = relation.get_tuple_name(IN)
    deltas = relation.set_tuple_name(OUT, name).deltas()
    if not deltas.is_singleton():
        return None
    point = deltas.sample_point()
    return tuple(int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(rank))
