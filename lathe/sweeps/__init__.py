"""Design-space exploration: simulates every workload of a grid on every machine of a grid, on all cores."""
