"""Fitting a table: split, candidate networks, choice between them, calibration."""
