"""Instruction selection: the chunks of a loop nest, and the emission rules that turn them into instructions."""
