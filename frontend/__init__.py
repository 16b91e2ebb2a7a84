"""Tensor programs: expressions, operators and their NumPy meaning."""
