"""Raw instruction streams with a raw memory image, and their files."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lathe.configs import HardwareConfig, LatheError
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.array_args import array_of
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.errors import shown
from lathe.configs.memory import PAGE_BYTES
from lathe.isa.launch_checks import unreachable_message
from lathe.isa.table import MOST_TOKENS, TOKEN_BITS

KEYS = ("insns", "insn_addr", "page_addrs", "pages", "tokens")
AFTER_KEYS = ("after_addrs", "after_pages", "after_tokens")  # the expected state after the run, if a file has it
PROGRAM_KEY = "header"  # in the archives of compiled programs, not in those of streams


class StreamError(LatheError):
    """A stream file that cannot be read, or a malformed stream."""


@dataclass(frozen=True, eq=False)
class RawStream:
    """A stream: ``insns`` (N, 16) uint8, fetched from byte ``insn_addr``, and its initial memory and tokens.

    Memory has ``pages`` (P, 4096) uint8 at ``page_addrs`` (P,) uint64, and is zero elsewhere; ``tokens`` are in the
    order load→compute, compute→load, compute→store, store→compute.
    """

    insns: NDArray[np.uint8]
    insn_addr: int
    page_addrs: NDArray[np.uint64]
    pages: NDArray[np.uint8]
    tokens: tuple[int, int, int, int]


def read_stream(stream: str | PathLike[str] | Mapping[str, ArrayLike]) -> RawStream:
    """A stream from an ``.npz`` file or from a mapping with the same keys; other keys are ignored.

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
    arrays = read_stream_arrays(path, (*KEYS, PROGRAM_KEY))
    if PROGRAM_KEY in arrays:
        raise StreamError(
            f"The stream file {str(path)!r} must hold a raw stream, not a compiled program. Run it with `lathe "
            "simulate`, or with Program.load and simulate in Python."
        )
    return _checked(arrays, f"stream file {str(path)!r}")


def read_stream_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a stream's file, restricted to ``names`` if given. Raises :class:`StreamError`."""
    try:
        return read_arrays(path, names)
    except UnreadableArchiveError as error:
        if error.no_file:
            raise StreamError(f"Cannot read stream file {str(path)!r}: {error}. Correct the path.") from None
    raise StreamError(
        f"The stream file {str(path)!r} must be an .npz archive with {', '.join(KEYS)}, not another kind of file or "
        "a truncated one. Make it with numpy.savez."
    )


def stream_for(config: HardwareConfig, stream: str | PathLike[str] | Mapping[str, ArrayLike]) -> RawStream:
    """The result of :func:`read_stream`, if the machine's fetch can reach all its instructions.

    Raises :class:`StreamError`.
    """
    raw = read_stream(stream)
    if (message := unreachable_message(config, raw.insn_addr, len(raw.insns))) is not None:
        raise StreamError(message)
    return raw


def checked_memory(
    arrays: Mapping[str, Any], keys: tuple[str, str, str], where: str
) -> tuple[NDArray[np.uint64], NDArray[np.uint8], tuple[int, int, int, int]]:
    """Page addresses, pages and tokens, which are under ``keys`` in ``arrays``.

    Raises :class:`StreamError` naming the key that is wrong.
    """
    of_addresses, of_pages, of_tokens = keys
    pages = _bytes(arrays[of_pages], of_pages, PAGE_BYTES, where)
    addresses = _integers(arrays[of_addresses], of_addresses, (len(pages),), where)
    wrong = addresses[addresses % PAGE_BYTES != 0]
    if len(wrong):
        raise StreamError(
            f"{of_addresses} of {where} must be multiples of {PAGE_BYTES}, not {int(wrong[0]):#x}. "
            "Correct the addresses."
        )
    if len(np.unique(addresses)) < len(addresses):
        raise StreamError(f"{of_addresses} of {where} must be distinct, and are not. Give each page once.")
    a, b, c, d = _integers(arrays[of_tokens], of_tokens, (4,), where).tolist()
    if max(a, b, c, d) > MOST_TOKENS:
        raise StreamError(
            f"{of_tokens} of {where} must be at most {MOST_TOKENS}, not {max(a, b, c, d)}. A counter has {TOKEN_BITS} "
            "bits."
        )
    return addresses.astype(np.uint64), pages, (a, b, c, d)


def _checked(arrays: Mapping[str, Any], where: str) -> RawStream:
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        given = f", not only {', '.join(sorted(map(str, arrays)))}" if arrays else ", and there are none"
        raise StreamError(f"The keys of {where} must include {missing[0]}{given}. Add the array.")
    insns = _bytes(arrays["insns"], "insns", INSTRUCTION_BYTES, where)
    insn_addr = _integers(arrays["insn_addr"], "insn_addr", (), where)
    if insn_addr[()] % INSTRUCTION_BYTES:
        raise StreamError(
            f"insn_addr of {where} must be a multiple of {INSTRUCTION_BYTES}, not {int(insn_addr[()]):#x}. "
            "Instructions are aligned to their size."
        )
    return RawStream(insns, int(insn_addr[()]), *checked_memory(arrays, ("page_addrs", "pages", "tokens"), where))


def _bytes(value: Any, key: str, width: int, where: str) -> NDArray[np.uint8]:
    contract = f"{key} of {where} must have shape (N, {width}) and dtype uint8"
    array = _array(value, np.uint8, contract)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise StreamError(f"{contract}, not {array.shape} and {array.dtype}. Convert the array.")
    return array


def _array(value: Any, dtype: DTypeLike | None, contract: str) -> NDArray[Any]:
    """The value as an array; raises :class:`StreamError` if it is none."""
    try:
        return array_of(value, dtype)
    except ValueError as error:
        raise StreamError(f"{contract}, not be {error}. Convert the array.") from None


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
