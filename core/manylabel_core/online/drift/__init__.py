"""Drift detectors: they report a rise in the errors of a label, or of all labels together."""
