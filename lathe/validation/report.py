"""What is said of an element that is not where it must be."""

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
"""Samples whose values are told, of those in which they differ."""


class Report:
    """Tells instruction, chunk, cell, what must be there and what is."""

    def __init__(self, compiled: Compiled, expectation: Expectation, sampler: Sampler) -> None:
        self.compiled = compiled
        self.expectation = expectation
        self.sampler = sampler

    def refuse(
        self,
        chunk: int,
        instruction: int,
        element: str,
        wanted: NDArray[Any],
        cell: str,
        there: NDArray[np.int64] | None,
    ) -> NoReturn:
        """Raises ValidationError. ``instruction`` is the number of the one to blame, -1 where none has written there.

        ``wanted`` and ``there`` are columns of values; ``there`` is None where nothing else has been written.
        """
        who = "Some instruction"
        if instruction >= 0:
            who = f"Instruction {instruction} ({instruction_text(self.compiled.program.instructions[instruction])})"
        of = f" of chunk {self.compiled.chunks[chunk].text}" if chunk >= 0 else ""
        shown = [0]
        found = "and leaves it nowhere"
        if there is not None:
            shown = np.flatnonzero(wanted.astype(np.int64) != there)[:SHOWN].tolist()
            found = f"not {self.told(there, shown)}"
        raise ValidationError(
            f"{who}{of} must leave {element} = {numbers(wanted[shown])} in {cell}, {found}. Numbers are those of "
            f"random samples (seed {self.sampler.seed}). The emission rule, or what comes before it, is wrong."
        )

    def told(self, column: NDArray[np.int64], shown: list[int]) -> str:
        """What a column of values is: an element of some tensor, a constant, or numbers that nothing accounts for."""
        if (column == column[0]).all():
            return f"the constant {column[0]}"
        known = self.sampler.hashes(column[:, None])[0]
        for made in self.expectation.made.values():
            for columns in (made.onward, made.values):
                here = np.flatnonzero(self.sampler.hashes(columns) == known)
                if len(here):
                    return f"{element_text(made.tensor, int(here[0]))} = {numbers(column[shown])}"
        return f"{numbers(column[shown])}, which is no element of any tensor"


def element_text(tensor: Tensor, element: int) -> str:
    """An element by its row-major number."""
    index = ", ".join(str(int(n)) for n in np.unravel_index(element, tensor.shape))
    return f"{tensor.name}[{index}]"


def numbers(values: NDArray[Any]) -> str:
    """Values of some samples."""
    return " | ".join(str(int(value)) for value in values)
