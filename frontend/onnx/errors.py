"""The error for models that cannot be imported."""

from lathe.configs import LatheError


class ModelError(LatheError):
    """A model that cannot be read, is invalid, or needs something that neither an NPU nor the host CPU can do."""
