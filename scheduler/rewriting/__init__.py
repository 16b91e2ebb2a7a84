"""Rewriting of single computations: expressions, index maps, padding. Knows no schedule."""
