"""The data structures of a schedule: stages, loops, compute locations, memory scopes, layouts."""
