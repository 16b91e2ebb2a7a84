"""Installs the typing rules, the printer and symbolic extents as the operators of expression nodes."""

from lathe.frontend.arith.parameters import Extent
from lathe.frontend.expr.arithmetic import binary, cast, comparison, expression, negation
from lathe.frontend.expr.expr_base import language
from lathe.frontend.expr.text import format_computation, format_expr

language.expression = expression
language.binary = binary
language.comparison = comparison
language.negation = negation
language.cast = cast
language.extent = Extent
language.format_expr = format_expr
language.format_computation = format_computation
