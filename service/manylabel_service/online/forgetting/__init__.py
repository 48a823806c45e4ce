"""Forgetting: a model's history, log and state without some of its examples, and the receipts."""
