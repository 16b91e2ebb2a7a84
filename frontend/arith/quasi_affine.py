"""Conversion of quasi-affine expressions of isl to linear expressions with floor divisions."""

import islpy as isl

from lathe.frontend.arith.linear import Linear, floor_divide

IN, DIV = isl.dim_type.in_, isl.dim_type.div


def linear_of(aff: isl.Aff, inputs: list[Linear]) -> Linear:
    """A quasi-affine expression of isl, rounded down, given the values of the dimensions of its space."""
    denominator = aff.get_denominator_val()
    scale, whole = int(denominator.to_python()), aff.scale_val(denominator)
    result = Linear(int(whole.get_constant_val().to_python()))
    for n, value in enumerate(inputs):
        result += value * int(whole.get_coefficient_val(IN, n).to_python())
    for n in range(whole.dim(DIV)):
        coefficient = int(whole.get_coefficient_val(DIV, n).to_python())
        if coefficient:
            result += linear_of(whole.get_div(n), inputs) * coefficient
    return floor_divide(result, scale) if scale > 1 else result
