"""Successors of models: a log, history and snapshots written next to those of a model, which they replace.

`rewriter` omits forgotten examples; `promotion` gives a model the spec and state of a follower.
"""
