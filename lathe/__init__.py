"""Lathe compiles tensor programs to instruction streams for a configurable NPU and runs them cycle by cycle."""
