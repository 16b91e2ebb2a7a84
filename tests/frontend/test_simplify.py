"""Simplification of index expressions; ``test_index_domains.py`` has random ones."""

import pytest
from random_indices import points_of_box, values

from lathe.frontend import Axis
from lathe.frontend.arith.simplify import simplified_index

I, J = Axis("i", 6), Axis("j", 20)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((I * 20 + J) // 60, "i // 3"),
        ((I * 20 + J) // 20, "i"),
        ((I * 20 + J) // 20 % 3, "i % 3"),
        ((I * 20 + J) // 5 % 4, "j // 5"),
        ((I * 20 + J) % 5, "j % 5"),
        ((I * 20 + J) % 60, "i % 3 * 20 + j"),
        ((I * 20 + J + 40) // 20, "i + 2"),
        (((I.astype("int32") * 20 + J.astype("int32")) // 60).astype("index"), "i // 3"),
        ((J.astype("uint8") * 20 // 3).astype("index"), "index(uint8(j) * 20 // 3)"),
    ],
    ids=str,
)
def test_divisions_are_distributed(expr, expected):
    simple = simplified_index(expr)
    assert str(simple) == expected
    assert values(simple, points_of_box([I, J])) == values(expr, points_of_box([I, J]))
