"""A check of the tests: each place is broken on purpose in a copy, and the tests are asked whether they notice.

python -m benchmarks.mutations                 all places
python -m benchmarks.mutations 3 17            these places
python -m benchmarks.mutations --tests DIR     with the folder tests of another checkout
"""
