"""Index arithmetic: linear functions of loops with floor divisions, bounds of them, and their simplest form."""
