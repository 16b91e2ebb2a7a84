"""Quantised networks: partitioning between NPU and host CPU, lowering, and execution."""
