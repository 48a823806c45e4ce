"""History of a model: segments of its log, which remain after trimming, and states from which replay can begin."""
