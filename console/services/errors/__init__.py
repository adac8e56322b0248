"""Classify an error: its category, and its fingerprint."""
