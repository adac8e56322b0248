"""The console's index of a store: groups, summaries and search text in a local cache file that may be deleted.

Reads the store through its contract. Knows neither screens nor error texts: callers pass in the labelling function.
"""

from __future__ import annotations

from backends.index.builder import IndexBuilder
from backends.index.file import Cache, IndexUnavailable, default_folder
from backends.index.reader import Reader
from backends.index.rows import (
    Candidates,
    Cross,
    IndexedEntry,
    IndexQuestion,
    Label,
    Labeller,
    Progress,
    Snapshot,
    SummaryLine,
    VenueAge,
    VenueLine,
    file_entry,
)
from backends.index.writer import BuildPace, IndexWriter

__all__ = [
    "BuildPace",
    "Cache",
    "Candidates",
    "Cross",
    "IndexBuilder",
    "IndexQuestion",
    "IndexUnavailable",
    "IndexWriter",
    "IndexedEntry",
    "Label",
    "Labeller",
    "Progress",
    "Reader",
    "Snapshot",
    "SummaryLine",
    "VenueAge",
    "VenueLine",
    "default_folder",
    "file_entry",
]
