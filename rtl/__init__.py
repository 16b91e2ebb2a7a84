"""The accelerator in Amaranth: one module per hardware unit."""
