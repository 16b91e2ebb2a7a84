"""Compiler passes that lower a schedule for a machine, one file per pass."""
