"""An engine's open intents beside its dead-letter queue: reading them as entries, and settling them by evidence."""
