"""Code shared by the batch learners: base class, problems for the solvers, checks, progress and serialisation."""
