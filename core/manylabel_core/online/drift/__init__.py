"""Detectors of drift: when the errors of a label, or of all labels together, have risen."""
