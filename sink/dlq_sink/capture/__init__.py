"""Capture: a failed submit becomes an entry, whatever the engine's orders look like. Never guesses."""
