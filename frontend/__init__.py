"""The front end: the tensor expression language, operators, and the NumPy reference interpreter."""

import lathe.frontend.tensor.operator_hooks  # noqa: F401 - installs the operators of expressions
from lathe.frontend.arith.affine import Affine, as_affine
from lathe.frontend.arith.intervals import interval
from lathe.frontend.arith.parameters import parameter
from lathe.frontend.arith.polyhedra import access_of, domain_of, is_exact, shape_of
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.arithmetic import const, max, min, prod, rounding_shift, select, sum
from lathe.frontend.expr.errors import CausalityError, DomainError, InputError, ParameterError, TensorError
from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr, Operand, walk
from lathe.frontend.expr.nodes import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Computation,
    Const,
    Guard,
    Not,
    Read,
    ReadAccess,
    Reduce,
    Select,
    Tensor,
    axes_of,
    reads_data,
)
from lathe.frontend.expr.text import format_computation, format_expr
from lathe.frontend.interpreter.computation_arrays import evaluate_computation
from lathe.frontend.interpreter.reference import checked_input, checked_inputs, reference
from lathe.frontend.tensor.compute import compute, placeholder, reduce_axis
from lathe.frontend.tensor.programs import format_program, placeholders, topological
from lathe.frontend.tensor.recurrence_state import State, define, recurrence, state
from lathe.frontend.tensor.recurrences import Recurrence, find_recurrences
from lathe.frontend.tensor.rescale_parameters import rescale_parameters, rescaled_add_parameters

__all__ = [
    "Affine",
    "Axis",
    "AxisRef",
    "Binary",
    "Cast",
    "CausalityError",
    "Compare",
    "Computation",
    "Const",
    "DomainError",
    "Expr",
    "Guard",
    "InputError",
    "Not",
    "Operand",
    "ParameterError",
    "Read",
    "ReadAccess",
    "Recurrence",
    "Reduce",
    "Select",
    "State",
    "Tensor",
    "TensorError",
    "access_of",
    "as_affine",
    "axes_of",
    "checked_input",
    "checked_inputs",
    "compute",
    "const",
    "define",
    "domain_of",
    "evaluate",
    "evaluate_computation",
    "find_recurrences",
    "format_computation",
    "format_expr",
    "format_program",
    "interval",
    "is_exact",
    "max",
    "min",
    "parameter",
    "placeholder",
    "placeholders",
    "prod",
    "reads_data",
    "recurrence",
    "reduce_axis",
    "reference",
    "rescale_parameters",
    "rescaled_add_parameters",
    "rounding_shift",
    "select",
    "shape_of",
    "state",
    "substitute",
    "sum",
    "topological",
    "walk",
]
