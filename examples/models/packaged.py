"""Trained models that come inside packages of the registry (extra `models`), and what they take.

Magika's tells the kind of a file (Fratantonio et al., 2024). PP-OCRv4's detector finds text on pictures, and the
direction classifier of PP-OCR tells whether a line stands on its head (Du et al., 2020); both are trained by
PaddlePaddle and packed by RapidOCR. Only the files are read: the packages themselves are not imported.
"""

import importlib.util
from pathlib import Path

import numpy as np
import onnx

MAGIKA = ("magika", "models/standard_v3_3/model.onnx")
DETECTOR = ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")
DIRECTION = ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
"""Each model's package, and its place in it."""


def packaged(model: tuple[str, str]) -> onnx.ModelProto:
    """One of the models. Raises ModuleNotFoundError that says what to install."""
    package, place = model
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package!r} must be there, and is not. Install it: pip install '.[models]'")
    folder = spec.submodule_search_locations[0]
    return onnx.load(Path(folder) / place)


ENDS, NOTHING = 1024, 256
"""Magika reads so many bytes of a file's beginning and end; what is missing is no byte."""


def bytes_read(content: bytes) -> dict[str, np.ndarray]:
    """Magika's input, (1, 2048) int32: both ends of a file of a few thousand bytes, without its outer spaces."""
    stripped = content.strip()
    first, last = stripped[:ENDS], stripped[-ENDS:]
    padding = [NOTHING] * (ENDS - len(first))
    return {"bytes": np.array([[*first, *padding, *padding, *last]], np.int32)}
