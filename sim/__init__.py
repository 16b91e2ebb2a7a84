"""The simulator: machine state, unit models, event engine, trace and counters."""
