"""Models of an online learner: what was learnt, how it scores an example, and how it takes in the next one."""
