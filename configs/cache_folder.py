"""The folder of caches, which hold results of long computations by content hash."""

import os
from pathlib import Path


def user_cache_folder() -> Path | None:
    """LATHE_CACHE, or lathe/ in the user's cache folder; None without a home folder."""
    own = os.environ.get("LATHE_CACHE")
    if own:
        return Path(own).absolute()  # tools run in other working directories
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "lathe"
    except RuntimeError:
        return None
