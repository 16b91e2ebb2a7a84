"""Lower bound on the cycles of a program on a machine, for any schedule."""
