"""Successors of models. The log, history and snapshots of a successor are written next to those of a model, and then
replace them.

`rewriter` omits forgotten examples; `promotion` gives the model the spec and state of a follower.
"""
