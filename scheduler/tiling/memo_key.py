"""Memoisation key of the tiling search: groups with equal keys get the same tiles.

Networks repeat their layers. The key has all that evaluation reads from a model, with stages and tensors by number, so
that it depends neither on names nor on the rest of the schedule.
"""

from collections.abc import Hashable

from lathe.frontend import Tensor
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.tiling.footprint_model import ANYWHERE, TilingModel
from lathe.scheduler.tiling.fusion_groups import is_padding


def memo_key(model: TilingModel) -> Hashable:
    """The key of a group without user loops: groups with equal keys have equal costs for all tiles."""
    problem = model.problem
    stages = [*problem.computing, *(operand.stage for operand in problem.operands)]
    number = {stage: n for n, stage in enumerate(stages)}
    tensors: dict[Tensor, int] = {}

    def tensor(each: Tensor) -> int:
        return tensors.setdefault(each, len(tensors))

    walked = tuple(
        (
            tensor(made),
            tuple(reductions),
            tuple(
                (tensor(read), tuple((extent, terms is ANYWHERE, terms, spread) for extent, terms, spread in dims))
                for read, dims in reads
            ),
        )
        for _, made, reductions, reads in model.walk
    )
    return (
        model.config,
        model.narrow,
        tuple(_of_stage(model, stage, number) for stage in stages),
        tuple((number[each.stage], tuple(number[reader] for reader in each.consumers)) for each in problem.operands),
        tuple((number[stage], tuple(number[each] for each in freed), grows) for stage, freed, grows in model.liveness),
        walked,
        tuple(tensor(stage.tensor) for stage in stages),
        model.full,
        model.lanes_of_sink,
        frozenset(model.rows_of_weights),
        model.has_diagonals,
        model.is_data(problem.sink.tensor),
        tuple(sorted(model.capacity.items())),
        model.planes,
        model.sink_in_dram,
    )


def _of_stage(model: TilingModel, stage: EditedStage, number: dict[EditedStage, int]) -> Hashable:
    computation, product = stage.state.computation, model.plan.gemms[stage.tensor]
    axes = {axis: n for n, axis in enumerate((*computation.axes, *computation.reduce_axes))}
    reduction, inner = model.reduction.get(stage), model.inner.get(stage)
    return (
        stage.tensor.shape,
        stage.tensor.dtype,
        stage.state.scope,
        model.physical[stage],
        model.in_dram.get(stage),
        model.adjoining.get(stage),
        is_padding(stage, with_zeros=False),
        tuple(axis.extent for axis in axes),
        product is not None and (product.steps(computation, model.config), product.diagonal, product.turns),
        model.shares.get(stage),
        model.issue_cycles(stage),
        (stage in model.not_reset, stage in model.elided_adds, stage in model.addends),
        tuple(number[each] for each in model.loaded_only.get(stage, ())),
        None if inner is None else axes[inner],
        None if reduction is None else (axes[reduction], model.grain(stage, reduction)),
        tuple((axes[axis], model.grain(stage, axis)) for axis in model.single.get(stage, ())),
    )


__all__ = ["memo_key"]
