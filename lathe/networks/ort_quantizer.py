"""onnxruntime's quantiser as the host's process runs it: models come and go serialised.

It computes what a model's file tells it to, for constants are folded and samples run through. So it runs where memory
and time have limits, and this file has nothing of Lathe: the process loads it alone.
"""

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ERRORS = 3  # onnxruntime's severity
MOST_THREADS = 4
"""Each thread takes address space of its own, of which there is a limit."""


class _Reader:
    """Samples one by one, as onnxruntime's quantiser asks for them."""

    def __init__(self, samples: Sequence[Mapping[str, Any]]) -> None:
        self.left = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        """The next sample; None behind the last."""
        sample = next(self.left, None)
        return None if sample is None else dict(sample)


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what an error says."""
        self.heard.append(record.getMessage())


def prepared(model: bytes) -> bytes:
    """The model as ``quant_pre_process`` leaves it. Raises what that raises, or RuntimeError with what it logs."""
    preparing: Any = import_module("onnxruntime.quantization.shape_inference")
    _quietly()
    listener, root = _Listener(), logging.getLogger()
    root.handlers[:] = [listener]
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(model)
        # All shapes are known; its symbolic inference would need a package more.
        preparing.quant_pre_process(str(before), str(after), skip_symbolic_shape=True)
        if listener.heard:
            raise RuntimeError(listener.heard[-1].strip().splitlines()[-1])
        return _whole(after)


def quantised(
    model: bytes, samples: Sequence[Mapping[str, Any]], kinds: Sequence[str], per_channel: bool, symmetric: bool
) -> bytes:
    """The model in 8 bits, by the ranges that its values have with the samples. Raises what the quantiser raises."""
    quantization: Any = import_module("onnxruntime.quantization")
    _quietly()
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(model)
        quantization.quantize_static(
            str(before),
            str(after),
            _Reader(samples),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(kinds),
            per_channel=per_channel,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            extra_options={"ActivationSymmetric": symmetric},
        )
        return _whole(after)


def _whole(path: Path) -> bytes:
    """A model with its data, of a file that may have them beside it."""
    onnx: Any = import_module("onnx")
    whole: bytes = onnx.load(str(path)).SerializeToString()
    return whole


def _quietly() -> None:
    """Have onnxruntime log errors alone, and take a few threads for each session that does not say otherwise."""
    onnxruntime: Any = import_module("onnxruntime")
    onnxruntime.set_default_logger_severity(ERRORS)
    if onnxruntime.SessionOptions.__name__ == "FewThreads":
        return

    class FewThreads(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = min(os.cpu_count() or 1, MOST_THREADS)
            self.enable_cpu_mem_arena = False

    onnxruntime.SessionOptions = FewThreads
