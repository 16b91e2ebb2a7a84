"""Passes on the instruction stream: load scheduling, synchronisation, elision of accumulator resets."""
