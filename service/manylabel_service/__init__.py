"""The HTTP service around the learners of manylabel_core."""
