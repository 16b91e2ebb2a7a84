"""Completing a schedule for a machine, one file per pass."""
