"""Rematerialise wide values: recompute an int32 or int16 value for each fusion group if that is cheaper than a reload.

``S`` has 32 bits. One group of consumers reads it in the accumulators; for two it would be stored as four byte planes,
which the ALU combines again for both::

    S[i, j] = sum over k of A[i, k] * B[j, k]            S[i, j] = ...      S.again[i, j] = ...
    P[i, j] = int8(S[i, j] >> 3)                         P[i, j] = int8(S[i, j] >> 3)
    Q[i, j] = max(S[i, j], 0)                            Q[i, j] = max(S.again[i, j], 0)

The consumers of an output recompute it, too: its byte planes are stored for the host only.
"""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.configs.encoding import PAD_VALUE
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.scheduler.cost.stage_cost import cycles_per_vector
from lathe.scheduler.passes.eliminate_dead_elements import eliminate_dead_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.rewrite import clone_computation, redirect_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import groups_of, is_padding, reads_elementwise

WIDE = ("int32", "int16")
"""Dtypes wider than a byte that accumulators hold; unsigned ones wrap around only where they are stored."""
CYCLES_PER_PLANE = 8
"""Cycles of the compute unit per vector for one more byte plane: load it, shift what is there, and add it."""


def rematerialize(schedule: Edit, target: Target) -> None:
    """Give, in place, all but one group of consumers of a wide value a copy of the stages that compute it."""
    duplicated = False
    for stage in reversed(list(schedule.stages)):
        consumers = schedule.consumers(stage.tensor)
        output = stage.tensor in schedule.outputs
        if stage.tensor.dtype not in WIDE or len(consumers) + output < 2:
            continue
        chain = _chain(schedule, stage, target.config)
        if chain is None or _cycles(chain, target.config) > CYCLES_PER_PLANE * DTYPES[stage.tensor.dtype].bits // 8:
            continue
        groups = _group_consumers(schedule, target, [each for each in consumers if _is_fusable(each, stage)])
        stored = output or sum(map(len, groups)) < len(consumers)
        for group in groups if stored else groups[1:]:
            _duplicate(schedule, chain, group)
            duplicated = True
    if duplicated:  # each copy has fewer consumers, which may read fewer elements
        eliminate_dead_elements(schedule, target)


def _group_consumers(schedule: Edit, target: Target, consumers: Sequence[EditedStage]) -> list[list[EditedStage]]:
    """Consumers by the fusion groups in which they will be computed, in program order."""
    if len(consumers) < 2:
        return [[each] for each in consumers]
    grouped: list[list[EditedStage]] = []
    for group in groups_of(schedule, target):
        members = [each for each in consumers if each in (*group.inner, group.sink, *group.pads)]
        grouped += [members] if members else []
    return grouped


def _is_fusable(other: EditedStage, stage: EditedStage) -> bool:
    """Whether another stage may be fused with a stage: it is unscheduled and reads that element by element."""
    return is_unscheduled(other) and not other.state.computation.reduce_axes and reads_elementwise(other, stage)


def _chain(schedule: Edit, stage: EditedStage, config: HardwareConfig) -> list[EditedStage] | None:
    """The stages that compute a wide value from narrow ones, and paddings of the latter.

    None if one of them cannot be duplicated.
    """
    wide, paddings = [stage], dict[EditedStage, None]()
    for each in wide:  # grows during the iteration
        if not _is_duplicable(schedule, each):
            return None
        for read in each.state.computation.reads:
            producer = schedule.producer(read.tensor)
            if producer is None or producer in wide:
                continue
            if read.tensor.dtype in WIDE:
                if not _is_fusable(each, producer):
                    return None
                wide.append(producer)
            elif is_padding(producer, PAD_VALUE not in config.extensions) and is_unscheduled(producer):
                paddings[producer] = None  # LOADs pad for one group of stages only
    return [*wide, *paddings]


def _is_duplicable(schedule: Edit, stage: EditedStage) -> bool:
    """Whether a stage is unscheduled and computes a single wide value, not from its own earlier values."""
    computation, own = stage.state.computation, stage.tensor
    single = len(stage.state.tensors) == 1 and own.dtype in WIDE and computation.where is None
    return single and is_unscheduled(stage) and stage not in schedule.consumers(own)


def _cycles(chain: list[EditedStage], config: HardwareConfig) -> int:
    return sum(cycles_per_vector(each.state.computation, config) for each in chain if each.tensor.dtype in WIDE)


def _duplicate(schedule: Edit, chain: list[EditedStage], consumers: Sequence[EditedStage]) -> None:
    """Duplicate the chain for the consumers of a group, in place."""
    copies: dict[Tensor, Tensor] = {}
    for stage in [each for each in schedule.stages if each in chain]:
        computation = redirect_reads(stage.state.computation, copies)
        own = clone_computation(computation, fresh_name(schedule, f"{stage.name}.again"))
        copies[stage.tensor] = schedule.insert(initial_state(own), before=consumers[0]).tensor
    redirected = {chain[0].tensor: copies[chain[0].tensor]}
    for consumer in consumers:
        consumer.change(computation=redirect_reads(consumer.state.computation, redirected))
