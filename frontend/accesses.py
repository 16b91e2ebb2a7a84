"""The reads of a computation, each with the conditions under which it happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lathe.frontend.expressions import Expr, Read, Select

if TYPE_CHECKING:
    from lathe.frontend.tensors import Tensor

Guard: TypeAlias = tuple[Expr, bool]
"""A ``select`` condition on the way to a read, and whether it must hold (``then``) or not (``otherwise``)."""


@dataclass(frozen=True, eq=False)
class ReadAccess:
    """One read: the tensor, its index expressions, the guards from the outside in, and the body it stands in.

    Reads of the condition on the domain stand in none: their ``body_index`` is one more than the last.
    """

    tensor: "Tensor"
    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...]
    body_index: int
    node: Read


def reads_of(bodies: Sequence[Expr], where: Expr | None = None) -> tuple[ReadAccess, ...]:
    """Every read in the bodies, in the order in which they are written, and then those of the condition ``where``.

    A node that is reached twice under the same guards is one read. A read inside a condition or inside another read's
    index is under the guards around that condition or read. All that bodies read they read where ``where`` holds.
    """
    found: list[ReadAccess] = []
    around: tuple[Guard, ...] = () if where is None else ((where, True),)
    roots = [(body, around) for body in bodies]
    roots += [] if where is None else [(where, ())]
    for body_index, root in enumerate(roots):
        seen: set[tuple[int, ...]] = set()
        stack: list[tuple[Expr, tuple[Guard, ...]]] = [root]
        while stack:
            node, guards = stack.pop()
            key = (id(node), *(id(condition) if holds else ~id(condition) for condition, holds in guards))
            if key in seen:
                continue
            seen.add(key)
            if isinstance(node, Read):
                found.append(ReadAccess(node.tensor, node.indices, guards, body_index, node))
            if isinstance(node, Select):
                stack.append((node.otherwise, (*guards, (node.condition, False))))
                stack.append((node.then, (*guards, (node.condition, True))))
                stack.append((node.condition, guards))
            else:
                stack.extend((child, guards) for child in reversed(node.children))
    return tuple(found)
