"""Scratchpad allocation: buffers, their lives, aliasing, temporaries."""
