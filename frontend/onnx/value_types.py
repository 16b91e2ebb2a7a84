"""Element types and shapes of a model's tensors; sequences and optionals have none."""

from dataclasses import dataclass
from math import prod
from typing import Any

Shape = tuple[int, ...]
LEAST_IR = 4
"""The first version of models in which initializers need not be inputs."""
DTYPES_OF_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "str", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2", 27: "float6_e2m3fn", 28: "float6_e3m2fn",
}  # fmt: skip
"""Names of ONNX's element types (onnx.proto, TensorProto.DataType): NumPy's, those of ml_dtypes, and "str"."""
_BITS_OF_TYPES = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16,
    17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}  # fmt: skip


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of a tensor of a model."""

    dtype: str
    shape: Shape


def type_of(info: Any) -> TensorType | None:
    """The type of a ValueInfoProto; None unless it is a tensor with a static shape without negative sizes.

    Inference gives negative sizes for windows that are larger than the image.
    """
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    if any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in tensor.shape.dim):
        return None
    dtype = DTYPES_OF_TYPES.get(tensor.elem_type, "other")
    return TensorType(dtype, tuple(dim.dim_value for dim in tensor.shape.dim))


def bytes_of(kind: int, shape: Shape) -> int | None:
    """The size in bytes of a tensor in a file, by the number of its element type; None if it has no fixed size."""
    bits = _BITS_OF_TYPES.get(kind)
    return None if bits is None else -(-bits * prod(shape) // 8)
