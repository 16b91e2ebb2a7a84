"""Sweeps: every machine of a grid with every workload of a grid, measured on all cores."""
