"""Translation between JSON and the values that models, jobs and datasets accept."""
