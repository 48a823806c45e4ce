"""Solvers of the label-coupled dual for Gram matrices and for linear models, dense and sparse."""
