"""Expected values of every stage of a lowered schedule on random samples: the reference of the stream validator.

Each stage is evaluated with NumPy on arrays that have the samples as an extra leading dimension. Consumers of a stage
that computes in accumulators get fresh random values instead of its results; results of stages that only move values
(copies, pads, layouts, byte planes) are passed on unchanged.
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
from lathe.scheduler.layout.accumulate_in_place import in_place_sums
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.validation.sampling import Ints, Range, Sampler
from lathe.validation.sensitivity import Readers, computes, is_wide, sensitive_octaves

Array = NDArray[Any]

POISON = {tag: np.int64(value) for tag, value in (("a", 0x35A1C9), ("b", -0x51DE27))}
"""Two alternative contents of undefined cells; elements whose values depend on the choice are undefined, too."""


@dataclass(frozen=True)
class ExpectedTensor:
    """One tensor of a lowered schedule. Arrays are (samples, number of elements), or (number of elements,).

    ``values``: what its stage computes; ``hashes``: a hash of each column of these. ``onward``: the values that its
    consumers read. ``free``: elements that are undefined or not computed, and so not checked.
    """

    tensor: Tensor
    values: Array
    hashes: Ints
    onward: Array
    free: NDArray[np.bool_]


class Expectation:
    """The expected values of all tensors of a compiled program, inputs included: ``tensors`` by tensor."""

    def __init__(self, compiled: Compiled, sampler: Sampler) -> None:
        self.sampler = sampler
        self.schedule = compiled.schedule
        self.stages = [stage.state for stage in self.schedule.stages]
        self.readers: Readers = {}
        for state in self.stages:
            for tensor in dict.fromkeys(read.tensor for read in state.computation.reads):
                self.readers.setdefault(tensor, []).append((state.computation, state.tensors))
        computed = {tensor for state in self.stages for tensor in state.tensors}
        self.placeholders = [tensor for tensor in self.readers if tensor not in computed]
        self.summed = in_place_sums(find_aliases(self.schedule, compiled.program.config)).keys()
        self.inputs = self._inputs(compiled)
        self.tensors: dict[Tensor, ExpectedTensor] = {}
        self._onward: dict[Tensor, Array] = {}
        self._other: dict[Tensor, Array] = {}
        self._ranges: dict[Tensor, Range] = {}
        self._add_inputs(compiled)
        self._add_stages()

    def _inputs(self, compiled: Compiled) -> dict[str, Array]:
        """Values (samples, *shape) of the inputs and constants from the host CPU, by name."""
        inputs: dict[str, Array] = {}
        for tensor in self.placeholders:
            named = compiled.layout_of(tensor).tensor
            if named.name in compiled.constants:
                constant = np.asarray(compiled.constants[named.name])
                inputs[named.name] = np.broadcast_to(constant, (self.sampler.samples, *constant.shape))
            elif named.name not in inputs:
                dtype = DTYPES[named.dtype]
                octaves = sensitive_octaves(tensor, self.readers, self.sampler.seed) if is_wide(named.dtype) else ()
                values = Range(dtype.minimum, dtype.maximum, octaves)
                drawn = self.sampler.draw(self.sampler.identities(named.name, int(np.prod(named.shape))), values)
                inputs[named.name] = drawn.reshape(-1, *named.shape).astype(dtype.numpy)
        return inputs

    def _add_inputs(self, compiled: Compiled) -> None:
        for tensor in self.placeholders:
            layout = compiled.layout_of(tensor)
            one = other = samples = self.inputs[layout.tensor.name]
            if layout.maps or layout.host_steps:
                one, other = (
                    np.stack([layout.pack(sample, int(_wrapped(poison, tensor.dtype))) for sample in samples])
                    for poison in POISON.values()
                )
            one, other = (np.ascontiguousarray(each).reshape(-1, *tensor.shape) for each in (one, other))
            free = (one != other).any(axis=0).reshape(-1)
            self._onward[tensor] = one
            self._other[tensor] = one if not free.any() else other
            flat = one.reshape(len(one), -1)
            self.tensors[tensor] = ExpectedTensor(tensor, flat, self.sampler.hashes(flat), flat, free)

    def _add_stages(self) -> None:
        waiting = list(self.stages)
        while waiting:
            ready = next(
                (each for each in waiting if all(r.tensor in self._onward for r in each.computation.reads)), None
            )
            if ready is None:
                self._add_recurrence(waiting)
                return
            waiting.remove(ready)
            results = self._evaluated(ready.computation, self._onward)
            others = self._with_other_poison(ready.computation, results)
            for number, tensor in enumerate(ready.tensors):
                self._add(ready, tensor, results[number], others[number])

    def _evaluated(self, computation: Computation, arrays: Mapping[Tensor, Array], poison: str = "a") -> list[Array]:
        """The arrays (samples, *shape) of a computation's outputs."""
        batched = _Batched(computation, arrays, self.sampler.samples, poison)
        with np.errstate(over="ignore"):
            return list(evaluate_computation(batched.computation, batched.arrays))

    def _with_other_poison(self, computation: Computation, results: list[Array]) -> list[Array]:
        """The outputs with the other poison in undefined cells; ``results`` itself if none of these is read."""
        undefined = any(isinstance(node, Undef) for body in computation.bodies for node in walk(body))
        changed = any(self._other[read.tensor] is not self._onward[read.tensor] for read in computation.reads)
        return self._evaluated(computation, self._other, "b") if undefined or changed else results

    def _exists(self, computation: Computation) -> NDArray[np.bool_] | None:
        """Whether each element is in the domain in some sample, (number of elements,); None: all are."""
        if computation.where is None:
            return None
        condition = Computation(computation.name, computation.axes, (), (computation.where,))
        return np.asarray(self._evaluated(condition, self._onward)[0].any(axis=0).reshape(-1))

    def _add(self, state: StageState, tensor: Tensor, values: Array, other: Array) -> None:
        flat = np.ascontiguousarray(values).reshape(self.sampler.samples, -1)
        free = np.zeros(flat.shape[1], np.bool_)
        if other is not values:
            free |= (flat != other.reshape(flat.shape)).any(axis=0)
        exists = self._exists(state.computation)
        if exists is not None:
            free |= ~exists
        hashes = self.sampler.hashes(flat)
        onward = flat
        if self.is_replaced(state):
            onward = self._fresh(state, tensor, flat, hashes)
        self.tensors[tensor] = ExpectedTensor(tensor, flat, hashes, onward, free)
        self._onward[tensor] = onward.reshape(-1, *tensor.shape)
        self._other[tensor] = self._onward[tensor]
        if free.any():
            poisoned = onward.copy()
            poisoned[:, free] = other.reshape(flat.shape)[:, free] ^ np.asarray(1, onward.dtype)
            self._other[tensor] = poisoned.reshape(-1, *tensor.shape)

    def is_replaced(self, state: StageState) -> bool:
        """Whether consumers of a stage get fresh values: if it computes, in accumulators.

        Not for a GEMM that accumulates over another stage's result: no value of its own is left to replace.
        """
        if any(stage.state is state for stage in self.summed):
            return False
        return state.scope == "acc" and any(computes(body) for body in defined(state.computation).bodies)

    def _fresh(self, state: StageState, tensor: Tensor, values: Array, identities: Ints) -> Array:
        constant = (values == values[0]).all(axis=0)
        return np.where(constant, values, self._draw(state, tensor, identities))

    def _draw(self, state: StageState, tensor: Tensor, identities: Ints) -> Array:
        """Random values for a stage's elements, within the range of its expression."""
        dtype = DTYPES[tensor.dtype]
        if tensor not in self._ranges:
            low, high = interval(defined(state.computation).bodies[state.tensors.index(tensor)])
            octaves = sensitive_octaves(tensor, self.readers, self.sampler.seed) if is_wide(tensor.dtype) else ()
            self._ranges[tensor] = Range(max(low, dtype.minimum), min(high, dtype.maximum), octaves)
        return self.sampler.draw(identities, self._ranges[tensor], tensor.name).astype(dtype.numpy)

    def _add_recurrence(self, states: Sequence[StageState]) -> None:
        """Evaluate the stages of a recurrence, each on the others' onward values, until a fixed point is reached.

        Fresh values depend on element numbers here, so that they exist before the values that they replace. Constant
        elements keep their values, and elements found to be equal get equal values.
        """
        arrays = dict(self._onward)
        numbers: dict[Tensor, Ints] = {}
        for state in states:
            for tensor in state.tensors:
                numbers[tensor] = self.sampler.identities(tensor.name, int(np.prod(tensor.shape)))
                blank = np.zeros((self.sampler.samples, numbers[tensor].size), DTYPES[tensor.dtype].numpy)
                if self.is_replaced(state):
                    blank = self._draw(state, tensor, numbers[tensor])
                arrays[tensor] = blank.reshape(-1, *tensor.shape)
        computed: dict[Tensor, Array] = {}
        for _ in range(sum(max(tensor.shape) for tensor in numbers) + 8):
            changed = False
            for state in states:
                for tensor, values in zip(state.tensors, self._evaluated(state.computation, arrays), strict=True):
                    flat = np.ascontiguousarray(values).reshape(self.sampler.samples, -1)
                    computed[tensor] = flat
                    onward = flat
                    if self.is_replaced(state):
                        hashes = self.sampler.hashes(flat)
                        _, first, back = np.unique(hashes, return_index=True, return_inverse=True)
                        drawn = self._draw(state, tensor, numbers[tensor][first[back]])
                        onward = np.where((flat == flat[0]).all(axis=0), flat, drawn)
                    new = np.ascontiguousarray(onward).reshape(-1, *tensor.shape)
                    if not np.array_equal(new, arrays[tensor]):
                        arrays[tensor], changed = new, True
            if not changed:
                break
        else:
            raise AssertionError(f"values of {', '.join(tensor.name for tensor in numbers)} do not converge")
        self._onward.update(arrays)
        self._other.update(arrays)
        for state in states:
            exists = self._exists(state.computation)
            for tensor in state.tensors:
                flat = computed[tensor]
                free = np.zeros(flat.shape[1], np.bool_) if exists is None else ~exists
                onward = arrays[tensor].reshape(flat.shape) if self.is_replaced(state) else flat
                self.tensors[tensor] = ExpectedTensor(tensor, flat, self.sampler.hashes(flat), onward, free)


class _Batched:
    """A computation with the samples as its first axis, and the arrays that it reads."""

    def __init__(self, computation: Computation, arrays: Mapping[Tensor, Array], samples: int, poison: str) -> None:
        self.sample = Axis("sample", samples)
        self.tensors: dict[Tensor, Tensor] = {}
        self.arrays: dict[Tensor, Array] = {}
        self.given = arrays
        self.poison = poison
        self._rewritten: dict[Expr, Expr] = {}
        mapped = computation.mapped(self._with_samples)
        self.computation = Computation(
            computation.name,
            (self.sample, *computation.axes),
            computation.reduce_axes,
            mapped.bodies,
            where=mapped.where,
        )

    def _with_samples(self, expr: Expr) -> Expr:
        if expr not in self._rewritten:
            children = tuple(self._with_samples(child) for child in expr.children)
            if isinstance(expr, Undef):
                self._rewritten[expr] = self._read_poison(expr.dtype)
            elif isinstance(expr, Read):
                self._rewritten[expr] = Read(self._tensor(expr.tensor), (AxisRef(self.sample), *children))
            else:
                same = all(new is old for new, old in zip(children, expr.children, strict=True))
                self._rewritten[expr] = expr if same else with_children(expr, children)
        return self._rewritten[expr]

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor not in self.tensors:
            array = np.ascontiguousarray(self.given[tensor])
            batched = self.tensors[tensor] = Tensor(tensor.name, array.shape, tensor.dtype)
            self.arrays[batched] = array
        return self.tensors[tensor]

    def _read_poison(self, dtype: str) -> Expr:
        poisoned = Tensor(f"poison.{dtype}", (self.sample.extent,), dtype)
        values = POISON[self.poison] * np.arange(1, self.sample.extent + 1)
        self.arrays[poisoned] = values.astype(DTYPES[dtype].numpy)
        return Read(poisoned, (AxisRef(self.sample),))


def _wrapped(value: np.int64, dtype: str) -> np.int64:
    """A number wrapped to a type."""
    return np.int64(np.asarray(value).astype(DTYPES[dtype].numpy))
