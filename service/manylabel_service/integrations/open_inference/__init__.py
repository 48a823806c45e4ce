"""Open Inference Protocol, used by KServe and Triton: a model predicts tensors."""
