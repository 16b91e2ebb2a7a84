"""Faults to plant, by kind, and the nets that should catch them; `benchmarks/mutation_testing.py` is what runs them.

`fault.py` has what a fault and a kind are, and plants them. A kind is a module: a function that looks, while a fault is
planted, who catches it, and the faults, which stand in two modules beside it, by what is broken; it becomes one more
entry of `KINDS` in `benchmarks/mutation_testing.py`. `programs.py` has twenty programs, as recipes to build under a
fault and built without one, `compiled_programs.py` more for faults of the compiler (`compiler.py`); `cases.py` has
launches of those and of random streams; `nets.py` in what simulator and RTL differ.
"""
