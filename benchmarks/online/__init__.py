"""Online learners: their speed, and their quality on streams, under budgets, as probabilities and through drift."""
