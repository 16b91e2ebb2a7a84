"""Self-contained HTML pages about runs and sweeps, and HTML representations of values for notebooks."""
