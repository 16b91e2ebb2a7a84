"""Tensor computations: how they are defined, checked, and bound to parameters; recurrences."""
