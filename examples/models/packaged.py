"""Trained models from Python packages (extra `models`), and their inputs.

Magika classifies file types (Fratantonio et al., 2024). PP-OCRv4's detector finds text in images, and PP-OCR's
direction classifier detects lines that are rotated by 180 degrees (Du et al., 2020); both were trained by PaddlePaddle
and are distributed by RapidOCR. Only the model files are read: the packages themselves are not imported.
"""

import importlib.util
from pathlib import Path

import numpy as np
import onnx

MAGIKA = ("magika", "models/standard_v3_3/model.onnx")
DETECTOR = ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")
DIRECTION = ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
"""The package of each model, and its path in the package."""


def packaged(model: tuple[str, str]) -> onnx.ModelProto:
    """One of the models. Raises ModuleNotFoundError with the command that installs it."""
    package, path = model
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"Cannot find package {package!r}. Install it: pip install '.[models]'")
    folder = spec.submodule_search_locations[0]
    return onnx.load(Path(folder) / path)


ENDS, NOTHING = 1024, 256
"""ENDS: bytes that Magika reads of a file's beginning and end; NOTHING: its padding value."""


def bytes_read(content: bytes) -> dict[str, np.ndarray]:
    """Magika's input, (1, 2048) int32: both ends of a file, stripped of leading and trailing white space."""
    stripped = content.strip()
    first, last = stripped[:ENDS], stripped[-ENDS:]
    padding = [NOTHING] * (ENDS - len(first))
    return {"bytes": np.array([[*first, *padding, *padding, *last]], np.int32)}
