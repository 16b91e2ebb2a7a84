"""The machine as passes query it: its memories, derated variants, and required extensions."""
