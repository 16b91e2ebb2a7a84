"""Code generation: walks the loop nest, emits chunks as instructions, lays out DRAM and assembles the program."""
