"""Read-only reports on a schedule: explanations, counts, IR levels as text, sensitivity analysis."""
