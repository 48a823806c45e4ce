"""The batch learners share parameters, the problems they hand to a solver, checks, progress and bytes."""
