"""Decisions: cuts of scores that suit a measure, and probabilities, from scores of rows that were not learnt."""
