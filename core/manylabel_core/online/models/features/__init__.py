"""Feature models: linear models on features whose inner products are a kernel's, or nearly."""
