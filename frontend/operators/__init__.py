"""Operators of neural networks, written in the tensor language."""
