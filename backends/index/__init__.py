"""The console's own index of a store: groups, summaries and search text in a local cache file.

Only ever reads the store, through its contract; may be deleted at any time. Knows no screens and no error texts:
what an entry is filed under is handed in as a function.
"""

from __future__ import annotations

from backends.index.feed import Feed
from backends.index.file import Cache, IndexUnavailable, default_folder
from backends.index.filing import Pace
from backends.index.reader import Reader
from backends.index.record import (
    Ask,
    Candidates,
    Cross,
    Label,
    Labeller,
    Line,
    Mark,
    Progress,
    Snapshot,
    VenueLine,
    file_entry,
)
from backends.index.writer import Writer

__all__ = [
    "Ask",
    "Cache",
    "Candidates",
    "Cross",
    "Feed",
    "IndexUnavailable",
    "Label",
    "Labeller",
    "Line",
    "Mark",
    "Pace",
    "Progress",
    "Reader",
    "Snapshot",
    "VenueLine",
    "Writer",
    "default_folder",
    "file_entry",
]
