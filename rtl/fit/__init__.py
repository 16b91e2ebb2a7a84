"""Fits the accelerator on an FPGA, a Lattice ECP5, out of context: resources and clock frequency."""

from lathe.rtl.fit.flow import DEVICES, SPEEDS, Fit, fit
from lathe.rtl.fit.report import PathPart, Resource

__all__ = ["DEVICES", "SPEEDS", "Fit", "PathPart", "Resource", "fit"]
