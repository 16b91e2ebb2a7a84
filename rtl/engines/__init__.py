"""The engines that run the RTL: Amaranth's own simulator, and Verilator."""
