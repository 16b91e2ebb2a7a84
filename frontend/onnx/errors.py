"""What is wrong with a model."""

from lathe.configs import LatheError


class ModelError(LatheError):
    """A model that cannot be read, is not valid, or asks for what no machine and no host of Lathe's does."""
