"""The loop nest IR: compute locations, bounds inference, instances, partitioning, printer and interpreter."""
