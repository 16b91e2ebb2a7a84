"""What the tests of invalid tensor programs share: tensors, and the check of an error."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from error_checks import check_mentions, raises

from lathe.configs.errors import LatheError
from lathe.frontend import (
    compute,
    placeholder,
    reduce_axis,
)

A, B = placeholder((8, 8), "int8", "A"), placeholder((8, 8), "int32", "B")
M, V = placeholder((8, 8), "bool", "M"), placeholder((10,), "int8", "V")
D, W = placeholder((1, 8, 8, 4), "int8", "D"), placeholder((8, 3, 3, 4), "int8", "W")
I, bias = placeholder((1, 8, 8, 4), "int32", "I"), placeholder((3,), "int32", "bias")
k, r, s = reduce_axis((0, 4), "k"), reduce_axis((0, 8), "r"), reduce_axis((0, 8), "r")
a8 = np.zeros((8, 8), np.int8)


@dataclass(frozen=True)
class Mistake:
    """An invalid program, its error, and the names and values that its message must mention (or the whole message)."""

    name: str
    mistake: Callable[[], object]
    error: type[LatheError]
    mentions: tuple[object, ...] | str


def computing(function, shape=(8, 8), name="C"):
    return lambda: compute(shape, function, name)


def check_message(case: Mistake) -> None:
    error = raises(case.error, case.mistake)
    if isinstance(case.mentions, str):
        assert str(error) == case.mentions
    else:
        check_mentions(error, *case.mentions)
