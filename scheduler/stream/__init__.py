"""Passes on the instruction stream: order of loads, synchronisation, removal of resets."""
