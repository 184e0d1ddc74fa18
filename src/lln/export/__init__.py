"""A fitted step in another language: C, ONNX, torch.export."""
