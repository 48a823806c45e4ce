"""Batch trainers beside what people would pick: forests, boosting, chains, linear machines with tuned cuts."""
