"""Every error that a sink or a store raises for an act that could not be done. Knows no database."""

from __future__ import annotations


class StoreError(Exception):
    """A problem with the store; `str()` is one clear line without secrets that says what to do."""


class BadTarget(StoreError):
    """The target cannot be understood, or it does not say which of several stores is meant."""


class Unreachable(StoreError):
    """The store cannot be opened or does not answer."""


class NotADLQ(StoreError):
    """It opens, but there is no dead-letter queue that can be read."""


class ActRefused(StoreError):
    """The store can be read, but refuses this act."""


class CommitUnknown(StoreError):
    """The connection was lost during the commit, and it is not known whether the act took place."""


class BadEntry(StoreError, ValueError):
    """A value of an entry cannot be kept or read exactly; nothing was written."""


class DuplicateEntry(StoreError):
    """An entry of that id is already there; nothing was overwritten."""


class SinkClosed(StoreError):
    """The sink was closed, or belongs to the process this one was forked from."""
