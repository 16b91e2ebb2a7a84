"""The reads of computations, under the name of their former file; they are in ``nodes.py``."""

from lathe.frontend.nodes import Guard, ReadAccess, reads_of

__all__ = ["Guard", "ReadAccess", "reads_of"]
