"""The engines that run the RTL: pysim, in Python, and verilator, compiled C++."""
