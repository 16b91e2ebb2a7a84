"""Layout assignment and physical layouts: which dimensions fill vectors, and where vectors lie."""
