"""Who needs an element that a chunk has failed to make: chunks may make what nobody reads, of whatever is there."""

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


def needed(compiled: Compiled, later: Sequence[int], tensor: Tensor, elements: Ints) -> Ints:
    """Those of a tensor's elements, just made, that some chunk reads before they are made again, or the host does.

    ``later`` has the numbers of the chunks that are still to come, in order.
    """
    makers = {made: stage.state for stage in compiled.schedule.stages for made in stage.state.tensors}
    missing = np.zeros(int(np.prod(tensor.shape)), np.bool_)
    missing[elements] = True
    wanted = np.zeros_like(missing)
    for number in later:
        chunk = compiled.chunks[number]
        state = makers[chunk.tensor]
        for access in defined(state.computation).reads:
            if access.tensor is tensor and chunk.role != "init":
                for read in _reads(state, chunk, access):
                    wanted[read] |= missing[read]
        if chunk.tensor is tensor and chunk.role != "update":
            missing[elements_of(chunk)] = False
        if not missing.any():
            break
    if tensor in compiled.schedule.outputs:
        wanted |= missing
    return np.flatnonzero(wanted)


def _reads(state: StageState, chunk: ChunkProvenance, access: ReadAccess) -> Iterator[NDArray[np.int64]]:
    """The elements that a chunk reads in one place, for each point of its reductions' outermost axis."""
    computation = state.computation
    coordinates = np.unravel_index(elements_of(chunk), chunk.tensor.shape)
    points: Environment = dict(zip(computation.axes, coordinates, strict=True))
    ranges = [np.arange(axis.start, axis.stop) for axis in computation.reduce_axes]
    for reduced in zip(*(grid.ravel() for grid in np.meshgrid(*ranges)), strict=True) if ranges else [()]:
        env = {**points, **{axis: int(value) for axis, value in zip(computation.reduce_axes, reduced, strict=True)}}
        happens = np.ones(len(coordinates[0]), np.bool_)
        for guard, holds in access.guards:
            if not reads_data(guard):
                happens &= np.broadcast_to(evaluate(guard, env) == holds, happens.shape)
        yield np.ravel_multi_index(_places(access, env, happens), access.tensor.shape, mode="clip")


def _places(access: ReadAccess, env: Environment, happens: NDArray[np.bool_]) -> tuple[NDArray[np.int64], ...]:
    """The indices that a read has where it happens; where data decide on one, all that it may be."""
    known = {
        dimension: np.broadcast_to(evaluate(each, env), happens.shape)[happens].astype(np.int64)
        for dimension, each in enumerate(access.indices)
        if not reads_data(each)
    }
    open_dimensions = [dimension for dimension in range(len(access.indices)) if dimension not in known]
    if not open_dimensions:
        return tuple(known.values())
    rows = np.unique(np.stack(list(known.values())), axis=1) if known else np.zeros((0, int(happens.any())), np.int64)
    every = np.indices([access.tensor.shape[dimension] for dimension in open_dimensions])
    every = every.reshape(len(open_dimensions), -1)
    found = np.concatenate((np.repeat(rows, every.shape[1], axis=1), np.tile(every, rows.shape[1])))
    place = {dimension: number for number, dimension in enumerate((*known, *open_dimensions))}
    return tuple(found[place[dimension]] for dimension in range(len(access.indices)))
