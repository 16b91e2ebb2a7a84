"""The accelerator on an FPGA, out of context: what it takes of a Lattice ECP5, and how fast its clock may be."""

from lathe.rtl.fit.flow import DEVICES, SPEEDS, Fit, fit
from lathe.rtl.fit.report import PathPart, Resource

__all__ = ["DEVICES", "SPEEDS", "Fit", "PathPart", "Resource", "fit"]
