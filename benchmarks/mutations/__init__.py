"""Faults for mutation testing, by kind, and the nets that should catch them, for `benchmarks/mutation_testing.py`.

`fault.py` defines and plants faults. A kind is a module with a function that returns the nets that catch the planted
fault, and with faults from two other modules; it is an entry of `KINDS` in `benchmarks/mutation_testing.py`.
`programs.py` has twenty programs, as recipes to build with a fault and built without one, `compiled_programs.py` more
for faults of the compiler (`compiler.py`); `cases.py` has launches of those and of random streams; `nets.py` compares
simulator and RTL.
"""
