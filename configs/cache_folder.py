"""The folder in which results of long work are kept, by content."""

import os
from pathlib import Path


def user_cache_folder() -> Path | None:
    """LATHE_CACHE, or lathe/ in the user's cache; None without a home."""
    own = os.environ.get("LATHE_CACHE")
    if own:
        return Path(own).absolute()  # tools run in folders of their own
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "lathe"
    except RuntimeError:
        return None
