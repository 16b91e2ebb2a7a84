"""Raw instruction streams with a raw memory image, and the files that hold them."""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lathe.configs import LatheError
from lathe.configs.arrays import array_of
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.errors import shown
from lathe.isa.paged_memory import PAGE_BYTES
from lathe.isa.table import MOST_TOKENS, TOKEN_BITS

KEYS = ("insns", "insn_addr", "page_addrs", "pages", "tokens")


class StreamError(LatheError):
    """A stream file that cannot be read, or a stream whose parts are not what they must be."""


@dataclass(frozen=True, eq=False)
class RawStream:
    """``insns`` (N, 16) uint8, fetched from byte ``insn_addr``; memory ``pages`` (P, 4096) uint8 at ``page_addrs`` (P,)
    uint64, zero elsewhere; ``tokens`` in load→compute, compute→load, compute→store, store→compute.
    """

    insns: NDArray[np.uint8]
    insn_addr: int
    page_addrs: NDArray[np.uint64]
    pages: NDArray[np.uint8]
    tokens: tuple[int, int, int, int]


def read_stream(stream: str | PathLike[str] | Mapping[str, ArrayLike]) -> RawStream:
    """A stream from an ``.npz`` file or from a mapping with the same keys; further keys are not looked at.

    Raises :class:`StreamError` naming the key that is missing or wrong.
    """
    if isinstance(stream, Mapping):
        return _checked(stream, "the stream")
    if not isinstance(stream, str | PathLike):
        raise StreamError(
            f"The stream must be the path of an .npz file, or a mapping with the keys {', '.join(KEYS)}, not "
            f"{shown(stream)}."
        )
    path = Path(stream)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name in KEYS}
    except FileNotFoundError:
        raise StreamError(f"The stream file {str(path)!r} must exist, and does not. Correct the path.") from None
    except OSError as error:
        if error.strerror is not None:
            raise StreamError(
                f"The stream file {str(path)!r} must be readable, and is not: {error.strerror}. Correct the path."
            ) from None
        raise _foreign(path) from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        ValueError,
        EOFError,
        KeyError,
        AttributeError,
        TypeError,
    ):
        # AttributeError and TypeError: a bare .npy array is no archive; ValueError: pickles and broken headers.
        raise _foreign(path) from None
    return _checked(arrays, f"stream file {str(path)!r}")


def _foreign(path: Path) -> StreamError:
    return StreamError(
        f"The stream file {str(path)!r} must be an .npz archive with {', '.join(KEYS)}, not a file of another kind or "
        "a truncated one. Make it with numpy.savez."
    )


def _checked(arrays: Mapping[str, Any], where: str) -> RawStream:
    for key in KEYS:
        if key not in arrays:
            given = ", ".join(sorted(arrays)) or "nothing"
            raise StreamError(f"The keys of {where} must include {key}, not only {given}. Add the array.")
    insns = _bytes(arrays["insns"], "insns", INSTRUCTION_BYTES, where)
    pages = _bytes(arrays["pages"], "pages", PAGE_BYTES, where)
    insn_addr = _integers(arrays["insn_addr"], "insn_addr", (), where)
    if insn_addr[()] % INSTRUCTION_BYTES:
        raise StreamError(
            f"insn_addr of {where} must be a multiple of {INSTRUCTION_BYTES}, not {int(insn_addr[()]):#x}. "
            "Instructions lie at multiples of their size."
        )
    addresses = _integers(arrays["page_addrs"], "page_addrs", (len(pages),), where)
    wrong = addresses[addresses % PAGE_BYTES != 0]
    if len(wrong):
        raise StreamError(
            f"page_addrs of {where} must be multiples of {PAGE_BYTES}, not {int(wrong[0]):#x}. Correct the addresses."
        )
    if len(np.unique(addresses)) < len(addresses):
        raise StreamError(f"page_addrs of {where} must be distinct, and are not. Give each page once.")
    tokens = _integers(arrays["tokens"], "tokens", (4,), where).tolist()
    if max(tokens) > MOST_TOKENS:
        raise StreamError(
            f"tokens of {where} must be at most {MOST_TOKENS}, not {max(tokens)}. A counter has {TOKEN_BITS} bits."
        )
    return RawStream(
        insns, int(insn_addr[()]), addresses.astype(np.uint64), pages, (tokens[0], tokens[1], tokens[2], tokens[3])
    )


def _bytes(value: Any, key: str, width: int, where: str) -> NDArray[np.uint8]:
    wanted = f"{key} of {where} must have shape (N, {width}) and dtype uint8"
    array = _array(value, np.uint8, wanted)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise StreamError(f"{wanted}, not {array.shape} and {array.dtype}. Convert the array.")
    return array


def _array(value: Any, dtype: DTypeLike | None, wanted: str) -> NDArray[Any]:
    """The value as an array; raises :class:`StreamError` where it is none."""
    try:
        return array_of(value, dtype)
    except ValueError as error:
        raise StreamError(f"{wanted}, not be {error}. Convert the array.") from None


def _integers(value: Any, key: str, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    array = _array(value, None, f"{key} of {where} must be integers of shape {shape}")
    if array.shape != shape or array.dtype.kind not in "iu":
        raise StreamError(
            f"{key} of {where} must be integers of shape {shape}, not {array.dtype} of shape {array.shape}. "
            "Convert the array."
        )
    if array.size and int(array.min()) < 0:
        raise StreamError(f"{key} of {where} must be at least 0, not {int(array.min())}. Correct the number.")
    return array
