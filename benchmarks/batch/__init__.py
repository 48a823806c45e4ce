"""Batch trainers: seconds to a proven duality gap, compared with LIBSVM and LIBLINEAR."""
