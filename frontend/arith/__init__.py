"""Index arithmetic: affine and quasi-affine expressions, their bounds and simplification, sets and maps of isl."""
