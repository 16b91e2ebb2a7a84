"""Tensor programs: expressions, operators and their NumPy meaning."""

import lathe.frontend.language  # noqa: F401 - operators mean nothing without it
from lathe.frontend.arithmetic import const, max, min, prod, rounding_shift, select, sum
from lathe.frontend.computation_arrays import evaluate_computation
from lathe.frontend.compute import compute, placeholder, reduce_axis
from lathe.frontend.cycles import Cycle, cycles
from lathe.frontend.errors import CausalityError, DomainError, InputError, ParameterError, TensorError
from lathe.frontend.evaluation import evaluate
from lathe.frontend.indices.affine import Affine, as_affine
from lathe.frontend.indices.intervals import interval
from lathe.frontend.nodes import (
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
from lathe.frontend.operand import Expr, Operand, walk
from lathe.frontend.parameters import parameter
from lathe.frontend.polyhedra import access_of, domain_of, is_exact, shape_of
from lathe.frontend.programs import format_program, placeholders, topological
from lathe.frontend.reference import checked_input, checked_inputs, reference
from lathe.frontend.rescale_parameters import rescale_parameters, rescaled_add_parameters
from lathe.frontend.states import State, define, recurrence, state
from lathe.frontend.substitution import substitute
from lathe.frontend.text import format_computation, format_expr

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
    "Cycle",
    "DomainError",
    "Expr",
    "Guard",
    "InputError",
    "Not",
    "Operand",
    "ParameterError",
    "Read",
    "ReadAccess",
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
    "cycles",
    "define",
    "domain_of",
    "evaluate",
    "evaluate_computation",
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
