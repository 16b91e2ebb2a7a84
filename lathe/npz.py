"""Opening .npz files that anybody may have made: what NumPy and zipfile raise, in words."""

import zipfile
import zlib

UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, ValueError, EOFError, AttributeError)
"""What reading a file that is missing, damaged or no archive raises."""


def reason_of(error: BaseException) -> str:
    """Why a file could not be read."""
    return error.strerror if isinstance(error, OSError) and error.strerror else "it is no .npz archive"
