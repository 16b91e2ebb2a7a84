"""The RTL as one Python function: each cell of the netlist at most once per cycle."""
