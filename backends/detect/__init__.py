"""Finds the dead-letter queue of a database by its columns, and reports its drift, missing guards and rights."""

from __future__ import annotations

from backends.detect.candidates import Attached, Candidate, CatalogColumn

__all__ = ["Attached", "Candidate", "CatalogColumn"]
