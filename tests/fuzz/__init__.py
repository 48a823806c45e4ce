"""Coverage-guided fuzzing of everything that parses what others wrote: `make fuzz` (docs/design.md)."""
