"""The values that a schedule is made of: loops, places, memories, layouts."""
