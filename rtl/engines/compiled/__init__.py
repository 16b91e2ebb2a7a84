"""Compiles the RTL to one Python function, which evaluates each cell of the netlist at most once per cycle."""
