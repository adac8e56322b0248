"""Stores of the layouts that others own (outbox, integration), behind the same contract."""
