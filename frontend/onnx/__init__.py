"""ONNX models, read with care, and what of them is quantised arithmetic."""
