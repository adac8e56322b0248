"""Classifies an error's text: category and fingerprint. Knows no store, no venue and no entry."""
