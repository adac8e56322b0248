"""Stores of the layouts that others own, outbox and integration, behind the contract of every store."""
