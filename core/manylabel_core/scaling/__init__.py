"""Feature scaling in a learner, by statistics of the stream so far or of the examples of a fit."""
