"""What every stage of a completed schedule makes, on samples: the algorithm's side of validation.

Each stage is evaluated by the NumPy meaning of the language, on arrays with one more dimension, that of the samples.
The values of stages that compute are replaced by new ones before others read them; those of stages that only move
values go on as they are, so that copies, pads, layouts and byte planes are seen through.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Axis, Computation, Tensor, interval
from lathe.frontend.arith.substitution import with_children
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import AxisRef, Read, Undef
from lathe.frontend.interpreter.computation_arrays import evaluate_computation
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.layout.accumulate_in_place import begun_sums
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.validation.sampling import Ints, Range, Sampler
from lathe.validation.sensitivity import Readers, computes, is_wide, telling_octaves

Array = NDArray[Any]

SPOILT = {tag: np.int64(value) for tag, value in (("a", 0x35A1C9), ("b", -0x51DE27))}
"""Two things that cells may hold on which nobody relies."""


@dataclass(frozen=True)
class Made:
    """One tensor of a completed schedule. Arrays are (samples, number of elements), or (number of elements,).

    ``values``: what its stage makes; ``known`` a number for each of these columns, equal for equal columns.
    ``onward``: what those who read it find instead. ``free``: elements that may hold anything, or are not made.
    """

    tensor: Tensor
    values: Array
    known: Ints
    onward: Array
    free: NDArray[np.bool_]


class Expectation:
    """The values of all tensors of a compiled program, inputs included, by tensor."""

    def __init__(self, compiled: Compiled, sampler: Sampler) -> None:
        self.sampler = sampler
        self.schedule = compiled.schedule
        self.stages = [stage.state for stage in self.schedule.stages]
        self.readers: Readers = {}
        for state in self.stages:
            for tensor in dict.fromkeys(read.tensor for read in state.computation.reads):
                self.readers.setdefault(tensor, []).append((state.computation, state.tensors))
        made = {tensor for state in self.stages for tensor in state.tensors}
        self.given = [tensor for tensor in self.readers if tensor not in made]
        self.summed = begun_sums(find_aliases(self.schedule, compiled.program.config)).keys()
        self.inputs = self._inputs(compiled)
        self.made: dict[Tensor, Made] = {}
        self._onward: dict[Tensor, Array] = {}
        self._other: dict[Tensor, Array] = {}
        self._ranges: dict[Tensor, Range] = {}
        self._place_inputs(compiled)
        self._make_all()

    def _inputs(self, compiled: Compiled) -> dict[str, Array]:
        """Values (samples, *shape) of what the host gives, by name."""
        found: dict[str, Array] = {}
        for tensor in self.given:
            named = compiled.layout_of(tensor).tensor
            if named.name in compiled.constants:
                given = np.asarray(compiled.constants[named.name])
                found[named.name] = np.broadcast_to(given, (self.sampler.samples, *given.shape))
            elif named.name not in found:
                dtype = DTYPES[named.dtype]
                octaves = telling_octaves(tensor, self.readers, self.sampler.seed) if is_wide(named.dtype) else ()
                values = Range(dtype.minimum, dtype.maximum, octaves)
                drawn = self.sampler.drawn(self.sampler.identities(named.name, int(np.prod(named.shape))), values)
                found[named.name] = drawn.reshape(-1, *named.shape).astype(dtype.numpy)
        return found

    def _place_inputs(self, compiled: Compiled) -> None:
        for tensor in self.given:
            layout = compiled.layout_of(tensor)
            one = other = given = self.inputs[layout.tensor.name]
            if layout.maps or layout.spread:
                one, other = (
                    np.stack([layout.pack(sample, int(_fitting(spoilt, tensor.dtype))) for sample in given])
                    for spoilt in SPOILT.values()
                )
            one, other = (np.ascontiguousarray(each).reshape(-1, *tensor.shape) for each in (one, other))
            free = (one != other).any(axis=0).reshape(-1)
            self._onward[tensor] = one
            self._other[tensor] = one if not free.any() else other
            flat = one.reshape(len(one), -1)
            self.made[tensor] = Made(tensor, flat, self.sampler.hashes(flat), flat, free)

    def _make_all(self) -> None:
        waiting = list(self.stages)
        while waiting:
            ready = next(
                (each for each in waiting if all(r.tensor in self._onward for r in each.computation.reads)), None
            )
            if ready is None:
                self._make_circle(waiting)
                return
            waiting.remove(ready)
            results = self._evaluated(ready.computation, self._onward)
            others = self._spoilt_evaluated(ready.computation, results)
            for number, tensor in enumerate(ready.tensors):
                self._note(ready, tensor, results[number], others[number])

    def _evaluated(self, computation: Computation, arrays: Mapping[Tensor, Array], spoilt: str = "a") -> list[Array]:
        """The arrays (samples, *shape) of a computation's outputs."""
        batched = _Batched(computation, arrays, self.sampler.samples, spoilt)
        with np.errstate(over="ignore"):
            return list(evaluate_computation(batched.computation, batched.arrays))

    def _spoilt_evaluated(self, computation: Computation, results: list[Array]) -> list[Array]:
        """The same with other values in cells on which nobody relies."""
        undefined = any(isinstance(node, Undef) for body in computation.bodies for node in walk(body))
        changed = any(self._other[read.tensor] is not self._onward[read.tensor] for read in computation.reads)
        return self._evaluated(computation, self._other, "b") if undefined or changed else results

    def _exists(self, computation: Computation) -> NDArray[np.bool_] | None:
        """Where elements exist in some sample, (number of elements,); None: everywhere."""
        if computation.where is None:
            return None
        condition = Computation(computation.name, computation.axes, (), (computation.where,))
        return np.asarray(self._evaluated(condition, self._onward)[0].any(axis=0).reshape(-1))

    def _note(self, state: StageState, tensor: Tensor, values: Array, other: Array) -> None:
        flat = np.ascontiguousarray(values).reshape(self.sampler.samples, -1)
        free = np.zeros(flat.shape[1], np.bool_)
        if other is not values:
            free |= (flat != other.reshape(flat.shape)).any(axis=0)
        exists = self._exists(state.computation)
        if exists is not None:
            free |= ~exists
        known = self.sampler.hashes(flat)
        onward = flat
        if self.renews(state):
            onward = self._renewed(state, tensor, flat, known)
        self.made[tensor] = Made(tensor, flat, known, onward, free)
        self._onward[tensor] = onward.reshape(-1, *tensor.shape)
        self._other[tensor] = self._onward[tensor]
        if free.any():
            spoilt = onward.copy()
            spoilt[:, free] = other.reshape(flat.shape)[:, free] ^ np.asarray(1, onward.dtype)
            self._other[tensor] = spoilt.reshape(-1, *tensor.shape)

    def renews(self, state: StageState) -> bool:
        """Whether readers of a stage find new values: those of stages that compute, in accumulators.

        Products that are added in place leave nothing but the sum.
        """
        if any(stage.state is state for stage in self.summed):
            return False
        return state.scope == "acc" and any(computes(body) for body in defined(state.computation).bodies)

    def _renewed(self, state: StageState, tensor: Tensor, values: Array, identities: Ints) -> Array:
        constant = (values == values[0]).all(axis=0)
        return np.where(constant, values, self._drawn(state, tensor, identities))

    def _drawn(self, state: StageState, tensor: Tensor, identities: Ints) -> Array:
        """New values of a stage's elements: any that its expression can have."""
        dtype = DTYPES[tensor.dtype]
        if tensor not in self._ranges:
            low, high = interval(defined(state.computation).bodies[state.tensors.index(tensor)])
            octaves = telling_octaves(tensor, self.readers, self.sampler.seed) if is_wide(tensor.dtype) else ()
            self._ranges[tensor] = Range(max(low, dtype.minimum), min(high, dtype.maximum), octaves)
        return self.sampler.drawn(identities, self._ranges[tensor], tensor.name).astype(dtype.numpy)

    def _make_circle(self, states: Sequence[StageState]) -> None:
        """Stages that need each other's earlier values: each is evaluated on what the others go on with.

        New values belong to elements by their numbers here, so that they are known before what they replace. What is
        constant stays so, and elements that turn out to be equal get equal values, until nothing changes.
        """
        arrays = dict(self._onward)
        numbers: dict[Tensor, Ints] = {}
        for state in states:
            for tensor in state.tensors:
                numbers[tensor] = self.sampler.identities(tensor.name, int(np.prod(tensor.shape)))
                blank = np.zeros((self.sampler.samples, numbers[tensor].size), DTYPES[tensor.dtype].numpy)
                if self.renews(state):
                    blank = self._drawn(state, tensor, numbers[tensor])
                arrays[tensor] = blank.reshape(-1, *tensor.shape)
        found: dict[Tensor, Array] = {}
        for _ in range(sum(max(tensor.shape) for tensor in numbers) + 8):
            changed = False
            for state in states:
                for tensor, values in zip(state.tensors, self._evaluated(state.computation, arrays), strict=True):
                    flat = np.ascontiguousarray(values).reshape(self.sampler.samples, -1)
                    found[tensor] = flat
                    onward = flat
                    if self.renews(state):
                        known = self.sampler.hashes(flat)
                        _, first, back = np.unique(known, return_index=True, return_inverse=True)
                        drawn = self._drawn(state, tensor, numbers[tensor][first[back]])
                        onward = np.where((flat == flat[0]).all(axis=0), flat, drawn)
                    new = np.ascontiguousarray(onward).reshape(-1, *tensor.shape)
                    if not np.array_equal(new, arrays[tensor]):
                        arrays[tensor], changed = new, True
            if not changed:
                break
        else:
            raise AssertionError(f"values of {', '.join(tensor.name for tensor in numbers)} do not settle")
        self._onward.update(arrays)
        self._other.update(arrays)
        for state in states:
            exists = self._exists(state.computation)
            for tensor in state.tensors:
                flat = found[tensor]
                free = np.zeros(flat.shape[1], np.bool_) if exists is None else ~exists
                onward = arrays[tensor].reshape(flat.shape) if self.renews(state) else flat
                self.made[tensor] = Made(tensor, flat, self.sampler.hashes(flat), onward, free)


class _Batched:
    """A computation with the samples as its first axis, and the arrays that it reads."""

    def __init__(self, computation: Computation, arrays: Mapping[Tensor, Array], samples: int, spoilt: str) -> None:
        self.sample = Axis("sample", samples)
        self.tensors: dict[Tensor, Tensor] = {}
        self.arrays: dict[Tensor, Array] = {}
        self.given = arrays
        self.spoilt = spoilt
        self._known: dict[Expr, Expr] = {}
        mapped = computation.mapped(self._with_samples)
        self.computation = Computation(
            computation.name,
            (self.sample, *computation.axes),
            computation.reduce_axes,
            mapped.bodies,
            where=mapped.where,
        )

    def _with_samples(self, expr: Expr) -> Expr:
        if expr not in self._known:
            children = tuple(self._with_samples(child) for child in expr.children)
            if isinstance(expr, Undef):
                self._known[expr] = self._read_spoilt(expr.dtype)
            elif isinstance(expr, Read):
                self._known[expr] = Read(self._tensor(expr.tensor), (AxisRef(self.sample), *children))
            else:
                same = all(new is old for new, old in zip(children, expr.children, strict=True))
                self._known[expr] = expr if same else with_children(expr, children)
        return self._known[expr]

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor not in self.tensors:
            array = np.ascontiguousarray(self.given[tensor])
            made = self.tensors[tensor] = Tensor(tensor.name, array.shape, tensor.dtype)
            self.arrays[made] = array
        return self.tensors[tensor]

    def _read_spoilt(self, dtype: str) -> Expr:
        made = Tensor(f"spoilt.{dtype}", (self.sample.extent,), dtype)
        values = SPOILT[self.spoilt] * np.arange(1, self.sample.extent + 1)
        self.arrays[made] = values.astype(DTYPES[dtype].numpy)
        return Read(made, (AxisRef(self.sample),))


def _fitting(value: np.int64, dtype: str) -> np.int64:
    """A number cut to what a type holds."""
    return np.int64(np.asarray(value).astype(DTYPES[dtype].numpy))
