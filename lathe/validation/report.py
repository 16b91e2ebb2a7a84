"""Error messages for elements that an instruction stream computes wrongly."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.isa import instruction_text
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.errors import ValidationError
from lathe.validation.expected import Expectation
from lathe.validation.sampling import Sampler

SHOWN = 3
"""The number of samples whose values a message gives, of those that differ."""


class Report:
    """Reports an element's instruction, chunk and cell, its expected and its actual values."""

    def __init__(self, compiled: Compiled, expectation: Expectation, sampler: Sampler) -> None:
        self.compiled = compiled
        self.expectation = expectation
        self.sampler = sampler

    def refuse(
        self,
        chunk: int,
        instruction: int,
        element: str,
        expected: NDArray[Any],
        cell: str,
        actual: NDArray[np.int64] | None,
    ) -> NoReturn:
        """Raise ValidationError. ``instruction``: the number of the one to blame, -1 if none has written the cell.

        ``expected`` and ``actual`` are columns of values; ``actual`` is None if the chunk has written nothing else.
        """
        subject = "Some instruction"
        if instruction >= 0:
            subject = f"Instruction {instruction} ({instruction_text(self.compiled.program.instructions[instruction])})"
        of = f" of chunk {self.compiled.chunks[chunk].text}" if chunk >= 0 else ""
        shown = [0]
        instead = "but none of these lanes holds that value"
        if actual is not None:
            shown = np.flatnonzero(expected.astype(np.int64) != actual)[:SHOWN].tolist()
            instead = f"not {self.describe(actual, shown)}"
        raise ValidationError(
            f"{subject}{of} must leave {element} = {numbers(expected[shown])} in {cell}, {instead}. Values are those "
            f"of random samples (seed {self.sampler.seed}). The emission rule, or a pass before it, is wrong."
        )

    def describe(self, column: NDArray[np.int64], shown: list[int]) -> str:
        """Identify a column of values: an element of some tensor, a constant, or unknown values."""
        if (column == column[0]).all():
            return f"the constant {column[0]}"
        hashed = self.sampler.hashes(column[:, None])[0]
        for each in self.expectation.tensors.values():
            for columns in (each.onward, each.values):
                matches = np.flatnonzero(self.sampler.hashes(columns) == hashed)
                if len(matches):
                    return f"{element_text(each.tensor, int(matches[0]))} = {numbers(column[shown])}"
        return f"{numbers(column[shown])}, which is no element of any tensor"


def element_text(tensor: Tensor, element: int) -> str:
    """The text of an element that is given by its row-major number, such as "C[3, 0]"."""
    index = ", ".join(str(int(n)) for n in np.unravel_index(element, tensor.shape))
    return f"{tensor.name}[{index}]"


def numbers(values: NDArray[Any]) -> str:
    """The text of values of some samples."""
    return " | ".join(str(int(value)) for value in values)
