"""Fits the confidence model on labelled incidents: ``python -m tests.calibration CORPUS... [--write]``."""
