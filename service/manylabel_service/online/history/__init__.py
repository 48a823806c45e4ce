"""History of a model: segments of its log, which are retained after trimming, and states from which replay can
begin."""
