"""Credentials: readable by field name, and by nothing else."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback

import pytest
from rich.pretty import pretty_repr

from venues import BadCredentials, Credentials

CANARY = "canary-7f3a91c2-secret"


@pytest.fixture
def credentials() -> Credentials:
    return Credentials({"api_key": "PKTEST", "secret_key": CANARY, "empty": ""})


def test_a_field_is_revealed_by_its_name(credentials: Credentials) -> None:
    assert credentials.reveal("secret_key") == CANARY
    assert credentials.fields() == ("api_key", "secret_key", "empty")


@pytest.mark.parametrize("field", ["missing", "empty"])
def test_a_missing_or_empty_field_is_named(credentials: Credentials, field: str) -> None:
    with pytest.raises(BadCredentials, match=field):
        credentials.reveal(field)


def test_no_way_of_writing_it_shows_a_value(credentials: Credentials, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("any").debug("%s %r %s", credentials, credentials, {"c": credentials})
    written = [
        str(credentials),
        repr(credentials),
        f"{credentials}",
        f"{credentials:>40}",
        f"{credentials!a}",
        repr([credentials]),
        pretty_repr(credentials),
        repr([getattr(credentials, name) for name in dir(credentials) if not name.startswith("__")]),
        caplog.text,
    ]
    assert [text for text in written if CANARY in text] == []
    assert "secret_key" in repr(credentials)


def test_it_cannot_be_copied_or_stored(credentials: Credentials) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps, vars):
        with pytest.raises(TypeError) as caught:
            attempt(credentials)
        assert CANARY not in str(caught.value)


def test_a_traceback_with_locals_does_not_show_a_value(credentials: Credentials) -> None:
    try:
        credentials.reveal("missing")
    except BadCredentials as error:
        text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "credentials = Credentials(" in text  # the locals are really shown
    assert CANARY not in text


def test_the_mapping_given_can_be_thrown_away() -> None:
    given = {"secret_key": CANARY}
    credentials = Credentials(given)
    given.clear()
    assert credentials.reveal("secret_key") == CANARY
