"""Faults to plant, by kind, and the nets that should catch them; `benchmarks/faults.py` is what runs them.

`fault.py` has what a fault and a kind are, and plants them. A kind is a module: its faults, and a function that looks,
while a fault is planted, who catches it; it becomes one more entry of `KINDS` in `benchmarks/faults.py`. `programs.py`
has twenty programs, as recipes to build under a fault and built without one; `program_nets.py` looks at them under
faults of the compiler. `cases.py` has launches of them and of random streams; `nets.py` says in what simulator and RTL
differ.
"""
