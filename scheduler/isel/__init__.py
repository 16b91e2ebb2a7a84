"""Instruction selection: chunks, statements, and the rules that take them."""
