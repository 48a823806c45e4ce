"""Batch trainers: seconds to a proven duality gap, beside LIBSVM and LIBLINEAR."""
