"""Models of online learners: their weights, how they score an example, and how they learn the next one."""
