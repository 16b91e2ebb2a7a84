"""onnxruntime's quantiser, as the host worker process runs it on serialised models.

It executes the model, to fold constants and to measure ranges of values, so it runs within the worker's memory and time
limits. The worker loads this file alone, so it must not import Lathe.
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
"""Each thread takes address space, which the memory limit includes."""


class _Reader:
    """Calibration samples, in the interface of onnxruntime's quantiser."""

    def __init__(self, samples: Sequence[Mapping[str, Any]]) -> None:
        self.samples_left = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        """The next sample; None after the last one."""
        sample = next(self.samples_left, None)
        return None if sample is None else dict(sample)


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store the message of an error."""
        self.messages.append(record.getMessage())


def prepared(model: bytes) -> bytes:
    """The model after ``quant_pre_process``. Raises its exceptions, or RuntimeError with an error that it logs."""
    preparing: Any = import_module("onnxruntime.quantization.shape_inference")
    _quietly()
    listener, root = _Listener(), logging.getLogger()
    root.handlers[:] = [listener]
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(model)
        # All shapes are known; its symbolic inference would need another package.
        preparing.quant_pre_process(str(before), str(after), skip_symbolic_shape=True)
        if listener.messages:
            raise RuntimeError(listener.messages[-1].strip().splitlines()[-1])
        return _whole(after)


def quantised(
    model: bytes, samples: Sequence[Mapping[str, Any]], kinds: Sequence[str], per_channel: bool, symmetric: bool
) -> bytes:
    """The model quantised to 8 bits, calibrated with the samples. Raises the quantiser's exceptions."""
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
    """A model from a file, with its external data."""
    onnx: Any = import_module("onnx")
    whole: bytes = onnx.load(str(path)).SerializeToString()
    return whole


def _quietly() -> None:
    """Make onnxruntime log only errors, and use few threads for sessions by default."""
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
