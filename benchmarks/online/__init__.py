"""Online learners: speed, quality on streams, kernel budgets, calibration and drift."""
