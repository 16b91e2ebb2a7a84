"""Estimates of cycles that passes and tiling decide by."""
