"""Mutation test: each place is broken in a copy of the code, and a test must fail.

python -m benchmarks.mutations                 all places
python -m benchmarks.mutations 3 17            these places
python -m benchmarks.mutations --tests DIR     with the folder tests of another checkout
"""
