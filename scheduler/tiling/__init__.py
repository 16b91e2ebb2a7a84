"""Tile sizes, loop order and load places of one group of stages."""
