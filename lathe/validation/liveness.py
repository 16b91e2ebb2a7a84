"""Liveness of elements that a chunk has computed wrongly: an element that is never read may hold any value."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, evaluate, reads_data
from lathe.frontend.expr.evaluation import Environment
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.validation.chunk_defs import elements_of
from lathe.validation.sampling import Ints


def live_elements(compiled: Compiled, later: Sequence[int], tensor: Tensor, elements: Ints) -> Ints:
    """Those of a tensor's elements that are live: read by a later chunk before they are redefined, or by the host CPU.

    ``later``: the numbers of the chunks still to be executed, in order.
    """
    producers = {produced: stage.state for stage in compiled.schedule.stages for produced in stage.state.tensors}
    candidates = np.zeros(int(np.prod(tensor.shape)), np.bool_)
    candidates[elements] = True
    live = np.zeros_like(candidates)
    for number in later:
        chunk = compiled.chunks[number]
        state = producers[chunk.tensor]
        for access in defined(state.computation).reads:
            if access.tensor is tensor and chunk.role != "init":
                for read in _reads(state, chunk, access):
                    live[read] |= candidates[read]
        if chunk.tensor is tensor and chunk.role != "update":
            candidates[elements_of(chunk)] = False
        if not candidates.any():
            break
    if tensor in compiled.schedule.outputs:
        live |= candidates
    return np.flatnonzero(live)


def _reads(state: StageState, chunk: ChunkProvenance, access: ReadAccess) -> Iterator[NDArray[np.int64]]:
    """The elements that a chunk reads through one access, for each point of its stage's reduction axes."""
    computation = state.computation
    first, *coordinates = np.unravel_index(elements_of(chunk), (1, *chunk.tensor.shape))
    points: Environment = dict(zip(computation.axes, coordinates, strict=True))
    ranges = [np.arange(axis.start, axis.stop) for axis in computation.reduce_axes]
    for reduced in zip(*(grid.ravel() for grid in np.meshgrid(*ranges)), strict=True) if ranges else [()]:
        env = {**points, **{axis: int(value) for axis, value in zip(computation.reduce_axes, reduced, strict=True)}}
        executed = np.ones(len(first), np.bool_)
        for guard, holds in access.guards:
            if not reads_data(guard):
                executed &= np.broadcast_to(evaluate(guard, env) == holds, executed.shape)
        if executed.any():
            yield np.ravel_multi_index(_indices(access, env, executed), access.tensor.shape, mode="clip")


def _indices(access: ReadAccess, env: Environment, executed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], ...]:
    """The indices of an access where it is executed; of a data-dependent index, the whole dimension."""
    known = {
        dimension: np.broadcast_to(evaluate(each, env), executed.shape)[executed].astype(np.int64)
        for dimension, each in enumerate(access.indices)
        if not reads_data(each)
    }
    open_dimensions = [dimension for dimension in range(len(access.indices)) if dimension not in known]
    if not open_dimensions:
        return tuple(known.values())
    rows = np.unique(np.stack(list(known.values())), axis=1) if known else np.zeros((0, int(executed.any())), np.int64)
    every = np.indices([access.tensor.shape[dimension] for dimension in open_dimensions])
    every = every.reshape(len(open_dimensions), -1)
    product = np.concatenate((np.repeat(rows, every.shape[1], axis=1), np.tile(every, rows.shape[1])))
    row_of = {dimension: number for number, dimension in enumerate((*known, *open_dimensions))}
    return tuple(product[row_of[dimension]] for dimension in range(len(access.indices)))
