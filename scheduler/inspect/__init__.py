"""What users ask of a schedule: explanations, counts, its levels as text, what-if questions."""
