"""Wide values that several groups read are made again for each of them, where that takes less than to store and load.

``S`` has 32 bits. One group takes it from the accumulators; for two it would be stored as four planes of bytes, which
the ALU puts together again for both::

    S[i, j] = sum over k of A[i, k] * B[j, k]            S[i, j] = ...      S.again[i, j] = ...
    P[i, j] = int8(S[i, j] >> 3)                         P[i, j] = int8(S[i, j] >> 3)
    Q[i, j] = max(S[i, j], 0)                            Q[i, j] = max(S.again[i, j], 0)

So it is for readers of an output: only what leaves the machine is stored as planes.
"""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.configs.encoding import PAD_VALUE
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.scheduler.cost.stage_cost import element_steps
from lathe.scheduler.passes.eliminate_dead_elements import eliminate_dead_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.rewrite import clone_computation, redirect_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import groups_of, is_padding, reads_elementwise

WIDE = ("int32", "int16")
"""The dtypes of wide values that accumulators hold; unsigned ones wrap around only where they are stored."""
STEPS_OF_PLANE = 8
"""Steps of the compute unit for an element of one more plane: to load it, shift what is there, and add it."""


def rematerialize(schedule: Edit, target: Target) -> None:
    """Give, in place, all but one group of readers of wide values stages of their own that make them."""
    made = False
    for stage in reversed(list(schedule.stages)):
        readers = schedule.readers(stage.tensor)
        output = stage.tensor in schedule.outputs
        if stage.tensor.dtype not in WIDE or len(readers) + output < 2:
            continue
        chain = _chain(schedule, stage, target.config)
        if chain is None or _steps(chain, target.config) > STEPS_OF_PLANE * DTYPES[stage.tensor.dtype].bits // 8:
            continue
        groups = _by_group(schedule, target, [each for each in readers if _takes(each, stage)])
        stored = output or sum(map(len, groups)) < len(readers)
        for group in groups if stored else groups[1:]:
            _make_for(schedule, chain, group)
            made = True
    if made:  # each of them for fewer readers, which may read less
        eliminate_dead_elements(schedule, target)


def _by_group(schedule: Edit, target: Target, readers: Sequence[EditedStage]) -> list[list[EditedStage]]:
    """Stages by the groups in which they will be computed, in their order."""
    if len(readers) < 2:
        return [[each] for each in readers]
    found: list[list[EditedStage]] = []
    for group in groups_of(schedule, target):
        inside = [each for each in readers if each in (*group.inner, group.sink, *group.pads)]
        found += [inside] if inside else []
    return found


def _takes(reader: EditedStage, stage: EditedStage) -> bool:
    """Whether a reader may be computed with what it reads of a stage."""
    return is_unscheduled(reader) and not reader.state.computation.reduce_axes and reads_elementwise(reader, stage)


def _chain(schedule: Edit, stage: EditedStage, config: HardwareConfig) -> list[EditedStage] | None:
    """The stages that make wide values from narrow ones, and borders around these.

    None if some of them have to stay.
    """
    wide, borders = [stage], dict[EditedStage, None]()
    for each in wide:  # which grows
        if not _may_be_made_again(schedule, each):
            return None
        for read in each.state.computation.reads:
            maker = schedule.maker(read.tensor)
            if maker is None or maker in wide:
                continue
            if read.tensor.dtype in WIDE:
                if not _takes(each, maker):
                    return None
                wide.append(maker)
            elif is_padding(maker, PAD_VALUE not in config.extensions) and is_unscheduled(maker):
                borders[maker] = None  # which LOADs make for one group of stages
    return [*wide, *borders]


def _may_be_made_again(schedule: Edit, stage: EditedStage) -> bool:
    """Whether the values of a stage are wide, nobody has touched it, and it needs none of its own."""
    computation, own = stage.state.computation, stage.tensor
    alone = len(stage.state.tensors) == 1 and own.dtype in WIDE and computation.where is None
    return alone and is_unscheduled(stage) and stage not in schedule.readers(own)


def _steps(chain: list[EditedStage], config: HardwareConfig) -> int:
    return sum(element_steps(each.state.computation, config) for each in chain if each.tensor.dtype in WIDE)


def _make_for(schedule: Edit, chain: list[EditedStage], readers: Sequence[EditedStage]) -> None:
    """Let the readers of a group read, in place, what stages of their own make."""
    instead: dict[Tensor, Tensor] = {}
    for stage in [each for each in schedule.stages if each in chain]:
        computation = redirect_reads(stage.state.computation, instead)
        own = clone_computation(computation, fresh_name(schedule, f"{stage.name}.again"))
        instead[stage.tensor] = schedule.insert(initial_state(own), before=readers[0]).tensor
    made = {chain[0].tensor: instead[chain[0].tensor]}
    for reader in readers:
        reader.change(computation=redirect_reads(reader.state.computation, made))
