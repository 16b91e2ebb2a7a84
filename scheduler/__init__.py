"""From tensor programs to instructions: four layers, schedule commands, partitioning and emission."""
