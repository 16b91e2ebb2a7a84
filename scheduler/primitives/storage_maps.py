"""Storage maps given as isl maps."""

import islpy as isl

from lathe.frontend import Axis, Tensor
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.arith.polyhedra import TooManyOperationsError, limited_operations, shape_of
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.instances import values_of
from lathe.scheduler.primitives.set_schedule import check_no_parameters
from lathe.scheduler.schedule_ir.storage import Storage, StorageBuffer

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
LARGEST_NUMBER = (1 << 63) - 1


def mapped(tensor: Tensor, buffer: StorageBuffer, given: "str | isl.Map") -> Storage:
    """The storage map that an isl map from the tensor's indices to cells defines.

    Raises ScheduleError if the text is no isl map, has another number of axes, gives an index no cell or several, or is
    not a single quasi-affine expression.
    """
    where = f"map of store_in of {tensor.name}"
    if isinstance(given, str):
        try:
            given = isl.Map.read_from_str(isl.DEFAULT_CONTEXT, given)
        except isl.Error:
            raise ScheduleError(
                f'{where} must be an isl map, as in "{{ C[i, j] -> [j, i mod 2] }}", not {given!r}.', kind="argument"
            ) from None
    check_no_parameters(given, where)
    if given.dim(IN) != tensor.ndim:
        raise ScheduleError(
            f"{where} must have {tensor.ndim} axes, as {tensor.shape} has, not {given.dim(IN)}.", kind="argument"
        )
    names = [given.get_dim_name(IN, n) or f"i{n}" for n in range(tensor.ndim)]
    axes = tuple(Axis(name, extent) for name, extent in zip(names, tensor.shape, strict=True))
    try:
        with limited_operations():
            domain = shape_of(tensor).set_tuple_name(tensor.name)
            relation = given.set_tuple_name(IN, tensor.name).intersect_domain(domain)
            _check_function(relation, domain, where, tensor.name)
            pieces: list[isl.MultiAff] = []
            function = isl.PwMultiAff.from_map(relation).coalesce().gist(domain)
            function.foreach_piece(lambda _, formula: pieces.append(formula))
    except (isl.Error, TooManyOperationsError) as error:
        raise ScheduleError(f"Cannot analyse {where} with isl: {error}. Give a simpler map.", kind="limit") from None
    if len(pieces) != 1:
        raise ScheduleError(
            f"{where} must be a single quasi-affine expression, not {len(pieces)} pieces. Give a map without cases.",
            kind="limit",
        )
    variables = [LoopVariable(axis.name, axis.extent) for axis in axes]
    inputs = [Linear.of(variable) for variable in variables]
    axis_of = dict(zip(variables, axes, strict=True))
    values = [linear_of(pieces[0].get_at(n), inputs) for n in range(pieces[0].dim(OUT))]
    for value in values:
        _check_numbers(value, where)
    indices = [_expression(value, axis_of) for value in values]
    return Storage(buffer, axes, tuple(indices))


def _check_function(relation: isl.Map, domain: isl.Set, where: str, name: str) -> None:
    missing = domain.subtract(relation.domain())
    if not missing.is_empty():
        index = ", ".join(map(str, values_of(missing.lexmin())))
        raise ScheduleError(f"{where} must give every index a cell, not leave out {name}[{index}].", kind="argument")
    if not relation.is_single_valued():
        several = relation.subtract(relation.lexmin()).domain().lexmin()
        cells = relation.intersect_domain(several).range()
        index = ", ".join(map(str, values_of(several)))
        raise ScheduleError(
            f"{where} must give every index one cell, not give {name}[{index}] both {values_of(cells.lexmin())} and "
            f"{values_of(cells.lexmax())}.",
            kind="argument",
        )


def _check_numbers(value: Linear, where: str) -> None:
    for number in (value.constant, *value.terms.values()):
        if abs(number) > LARGEST_NUMBER:
            raise ScheduleError(f"numbers in {where} must fit 64 bits, not be {number}.", kind="limit")
    for atom in value.terms:
        if not isinstance(atom, LoopVariable):
            _check_numbers(atom.numerator, where)


def _expression(value: Linear, axis_of: dict[LoopVariable, Axis]) -> Expr:
    """A linear expression as an index expression; ``x - n * (x // n)`` becomes a remainder."""
    terms: list[Expr] = []
    rest = value
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            continue
        whole = atom.numerator * -(coefficient // atom.divisor)
        if coefficient % atom.divisor == 0 and all(rest.terms.get(inner, 0) == c for inner, c in whole.terms.items()):
            rest = rest - whole - Linear.of(atom, coefficient)
            remainder = Binary("mod", _expression(atom.numerator, axis_of), Const(atom.divisor, "index"))
            terms.append(_times(remainder, -(coefficient // atom.divisor)))
    for atom, coefficient in rest.terms.items():
        if isinstance(atom, LoopVariable):
            terms.append(_times(AxisRef(axis_of[atom]), coefficient))
        else:
            divided = Binary("floordiv", _expression(atom.numerator, axis_of), Const(atom.divisor, "index"))
            terms.append(_times(divided, coefficient))
    if rest.constant or not terms:
        terms.append(Const(rest.constant, "index"))
    total = terms[0]
    for term in terms[1:]:
        total = Binary("add", total, term)
    return total


def _times(expr: Expr, factor: int) -> Expr:
    return expr if factor == 1 else Binary("mul", expr, Const(factor, "index"))
