"""From boxes to instructions: the walk, micro-ops, the map of DRAM, tokens."""
