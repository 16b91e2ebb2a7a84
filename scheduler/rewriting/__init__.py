"""Rewriting one computation: bodies, index maps, padding. Knows no schedule."""
