"""Scratchpad allocation: live ranges and addresses of buffers, in-place aliasing, multi-buffering, temporaries."""
