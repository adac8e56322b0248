"""Does an entry fit a filter? What `backends.filter_match` says of its row; here for whoever browses. Pure."""

from __future__ import annotations

from backends.filter_match import fits as fits
