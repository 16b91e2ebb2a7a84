"""Translation validation: does a program compute, element by element, what its tensors say?"""

from lathe.validation.validate import validate

__all__ = ["validate"]
