"""Successors of models: a log, history and snapshots written next to those of a model, to take their place.

`rewriter` leaves out examples that are forgotten; `promotion` gives a model the spec and state of a follower.
"""
