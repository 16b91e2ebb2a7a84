"""Differential test of the loop nest against NumPy on random inputs, before the first pass and after each pass."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, placeholders, reference
from lathe.scheduler.errors import ValidationError
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.interpret import interpret_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState, ScheduleView


class NestCheck:
    """Pass instrument that interprets the partitioned nest and compares it with NumPy if the schedule has changed.

    ``constants``: values of constant inputs. Raises ValidationError, with the name of the pass, for a wrong element.
    """

    def __init__(self, schedule: ScheduleView, constants: Mapping[str, NDArray[Any]], seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        drawn = {each.name: random_values(each, generator) for each in placeholders(schedule.program)}
        self.inputs = {**drawn, **constants}
        expected = reference(list(schedule.program), self.inputs)
        self.expected = {tensor.name: expected[tensor.name] for tensor in schedule.program}
        self.seed = seed
        self.compared: ScheduleState | None = None

    def __call__(self, name: str, schedule: ScheduleView) -> None:
        if self.compared is not None and schedule.state.is_same_state(self.compared):
            return
        self.compared = schedule.state
        inputs = {**self.inputs, **{tensor.name: array for tensor, array in schedule.state.constants.items()}}
        read = {access.tensor for stage in schedule.stages for access in stage.state.computation.reads}
        for tensor, seen in schedule.state.views.items():
            if seen.computation is not None or tensor not in read:
                continue  # a view of an output
            layout = schedule.layouts.get(seen)
            packed = inputs[seen.name] if layout is None else layout.pack(inputs[layout.tensor.name])
            inputs[tensor.name] = packed.reshape(tensor.shape)
        computed = interpret_nest(schedule, partition(build_nest(schedule, largest_blocks=True)), inputs)
        for output, array in zip(self.expected, computed.values(), strict=True):
            expected = self.expected[output]
            wrong = np.argwhere(array.reshape(expected.shape) != expected)
            if len(wrong):
                at = tuple(int(n) for n in wrong[0])
                raise ValidationError(
                    f"{output}[{', '.join(map(str, at))}] of the loop nest after {name} must be {expected[at]}, as in "
                    f"NumPy, not {array.reshape(expected.shape)[at]} (random inputs of seed {self.seed}). Unless it "
                    "depends on undefined values, this is a bug in the compiler."
                )


def random_values(tensor: Tensor, generator: np.random.Generator) -> NDArray[Any]:
    """Random values over the whole range of the tensor's dtype."""
    if tensor.dtype == "bool":
        return generator.integers(0, 2, tensor.shape).astype(np.bool_)
    limits = np.iinfo(tensor.dtype)
    return generator.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
