"""Tensor computations: definition, checks, binding of parameters, and recurrences."""
