"""Translation validation: does an instruction stream compute, element by element, what its program says?"""

from lathe.validation.errors import ValidationError
from lathe.validation.stream import validate_stream

__all__ = ["ValidationError", "validate_stream"]
