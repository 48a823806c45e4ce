"""The Open Inference Protocol, which KServe and Triton speak: a model predicts tensors."""
