"""Feature scaling as a part of a learner, by the statistics of its stream so far or of the examples of a fit."""
