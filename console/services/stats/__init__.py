"""Figures of a store: tally, groups, alerts, health, metrics, the shift report. Knows no venue and no screen."""
