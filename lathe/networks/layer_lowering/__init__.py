"""Lowering of each kind of layer to tensor programs, with zero points folded into biases, and constant weights."""
