"""Coverage-guided fuzzing of all parsers of foreign input: `make fuzz` (docs/design.md)."""
