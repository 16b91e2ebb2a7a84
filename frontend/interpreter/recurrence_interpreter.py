"""NumPy interpreter of recurrences.

It loops over the axes that carry a dependence, one point at a time; all other axes are vectorised.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

from lathe.frontend.arith.substitution import rewritten, substitute
from lathe.frontend.expr.dtypes import DTYPES, INDEX
from lathe.frontend.expr.evaluation import Array, evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Computation, Const, Select, Tensor, axes_of, reads_data
from lathe.frontend.interpreter.computation_arrays import evaluate_computation
from lathe.frontend.tensor.recurrences import Recurrence


def evaluate_recurrence(recurrence: Recurrence, arrays: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
    """The arrays of all outputs of a recurrence, given those of all other tensors that it reads (contiguous)."""
    results = {
        tensor: np.zeros(tensor.shape, DTYPES[tensor.dtype].numpy)
        for computation in recurrence.computations
        for tensor in computation.outputs
    }
    known = {**arrays, **results}
    longest = [max(each.axes[d].extent for each in recurrence.computations) for d in recurrence.carrying]
    for point in product(*map(range, longest)):
        at = dict(zip(recurrence.carrying, point, strict=True))
        for computation in recurrence.computations:
            if any(value >= computation.axes[d].extent for d, value in at.items()):
                continue
            window = tuple(slice(at[d], at[d] + 1) if d in at else slice(None) for d in range(len(computation.axes)))
            values = evaluate_computation(_at(computation, at), known)
            for tensor, value in zip(computation.outputs, values, strict=True):
                results[tensor][window] = value
    return results


def _at(computation: Computation, at: Mapping[int, int]) -> Computation:
    """The computation at fixed values of some data axes, which become axes of extent 1."""
    axes = tuple(Axis(axis.name, 1) if d in at else axis for d, axis in enumerate(computation.axes))
    values: dict[Axis, Expr] = {computation.axes[d]: Const(value, INDEX) for d, value in at.items()}
    bodies = tuple(_fold_selects(substitute(body, values)) for body in computation.bodies)
    where = None if computation.where is None else substitute(computation.where, values)
    return Computation(computation.name, axes, computation.reduce_axes, bodies, where=where)


def _fold_selects(expr: Expr) -> Expr:
    """The expression without selects whose condition is the same everywhere."""

    def leaf(node: Expr) -> Expr | None:
        if not isinstance(node, Select) or axes_of(node.condition) or reads_data(node.condition):
            return None
        return _fold_selects(node.then if bool(evaluate(node.condition, {})) else node.otherwise)

    return rewritten(expr, leaf)
