"""Faults to plant, by kind, and the nets that should catch them; `benchmarks/faults.py` is what runs them."""
