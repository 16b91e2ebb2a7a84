"""Tiling search for one fusion group: tile sizes, loop order and load levels."""
