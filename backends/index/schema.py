"""The DDL and the pragmas of the index file. Runs nothing."""

from __future__ import annotations

VERSION = 8
ORIGIN = 1 << 40  # the build numbers existing entries downwards from here; later entries go upwards
KINDS = {"venue": 0, "account": 1, "market": 2}

SETTINGS = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
    # Batches change the same pages again and again; in the log they are written to the file once for many batches.
    "PRAGMA wal_autocheckpoint = 16384",
)

# The writer's process runs for hours beside a console: what it wrote it rarely reads again.
WRITER_SETTINGS = ("PRAGMA cache_size = -1024", "PRAGMA temp_store = FILE")

# Made when all entries are filed: ids come in no order, so that each batch would change every page of it. Until then
# an entry is looked for among all.
ENTRY_ID = "CREATE UNIQUE INDEX entry_id ON entry (id)"

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE name (n INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    "CREATE TABLE shape (n INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, title TEXT NOT NULL)",
    # `notional`: the amount and, behind a blank, the purse it belongs to; in a summary: a JSON object purse → amount.
    """CREATE TABLE entry (
        n INTEGER PRIMARY KEY, id TEXT NOT NULL, shape INTEGER NOT NULL, category INTEGER NOT NULL,
        venue INTEGER NOT NULL, account INTEGER NOT NULL, market INTEGER NOT NULL, state INTEGER NOT NULL,
        retries INTEGER NOT NULL, captured INTEGER, notional TEXT)""",
    "CREATE INDEX entry_shape ON entry (shape, state, category, captured)",
    "CREATE INDEX entry_venue ON entry (venue, state, captured)",
    """CREATE TABLE summary (
        shape INTEGER NOT NULL, category INTEGER NOT NULL, state INTEGER NOT NULL, count INTEGER NOT NULL,
        retries INTEGER NOT NULL, notional TEXT NOT NULL, unpriced INTEGER NOT NULL, first INTEGER, last INTEGER,
        PRIMARY KEY (shape, category, state)) WITHOUT ROWID""",
    """CREATE TABLE part (
        shape INTEGER NOT NULL, kind INTEGER NOT NULL, name INTEGER NOT NULL, open INTEGER NOT NULL,
        count INTEGER NOT NULL, PRIMARY KEY (shape, kind, name, open)) WITHOUT ROWID""",
    # `step`: retries up to the last step; `captured`: a sum of microseconds, as text because it may exceed 64 bits.
    """CREATE TABLE venue (
        venue INTEGER NOT NULL, category INTEGER NOT NULL, state INTEGER NOT NULL, step INTEGER NOT NULL,
        count INTEGER NOT NULL, retries INTEGER NOT NULL, timed INTEGER NOT NULL, captured TEXT NOT NULL,
        PRIMARY KEY (venue, category, state, step)) WITHOUT ROWID""",
    """CREATE TABLE hour (
        hour INTEGER NOT NULL, shape INTEGER NOT NULL, category INTEGER NOT NULL, count INTEGER NOT NULL,
        PRIMARY KEY (hour, shape, category)) WITHOUT ROWID""",
    "CREATE TABLE minute (minute INTEGER PRIMARY KEY, count INTEGER NOT NULL)",
    "CREATE TABLE snapshot (at INTEGER PRIMARY KEY, open INTEGER, in_doubt INTEGER, total INTEGER)",
    """CREATE TABLE venue_depth (
        at INTEGER NOT NULL, venue INTEGER NOT NULL, open INTEGER NOT NULL, PRIMARY KEY (at, venue)) WITHOUT ROWID""",
    "CREATE TABLE looked (fingerprint TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
    # Stores neither content nor positions: the store has the text, and every hit is checked against it.
    # Texts and terms come folded.
    """CREATE VIRTUAL TABLE text USING fts5(
        t, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1')""",
    "INSERT INTO text (text, rank) VALUES ('hashsize', 4194304)",
    # Twice the default: a third less writing when rows come a few at a time, at no cost to searches.
    "INSERT INTO text (text, rank) VALUES ('automerge', 8)",
)
