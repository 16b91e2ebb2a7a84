"""The expression IR: nodes, dtypes, typing rules, printer."""
