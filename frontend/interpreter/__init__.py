"""The NumPy interpreter of tensor computations."""
