"""Count a store: groups, alerts, health, metrics, the shift report."""
