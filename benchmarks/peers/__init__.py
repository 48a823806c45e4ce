"""Batch trainers compared with forests, boosting, chains and linear machines with tuned thresholds."""
