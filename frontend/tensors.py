"""Names under which scheduling commands know the limits of expressions; they are in ``operand.py``."""

from lathe.frontend.operand import DEPTH_LIMIT

__all__ = ["DEPTH_LIMIT"]
