"""Translation validation: checks that a compiled program computes the elements of its tensors."""

from lathe.validation.validate import validate

__all__ = ["validate"]
