"""The lower bound on the cycles of a program."""
