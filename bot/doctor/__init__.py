"""Diagnosis of an installation, with remedies: checks by subject, run together (`antler doctor`)."""
