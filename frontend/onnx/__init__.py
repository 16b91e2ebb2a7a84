"""ONNX importer: reads and checks models, and matches their quantised operators to integer layers."""
