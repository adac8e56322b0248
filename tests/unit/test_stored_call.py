"""A stored call is read strictly, and a body keeps its characters."""

from __future__ import annotations

import pytest

from venues.integration.call import StoredCall, read_call
from venues.orders import Refused


def call(text: str) -> StoredCall:
    read = read_call(text)
    assert isinstance(read, StoredCall)
    return read


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        ('{"a": 1.10, "b": [1e400, 0.1000]}', b'{"a": 1.10, "b": [1e400, 0.1000]}'),
        ('  [1,  2 ]', b"[1,  2 ]"),
        ('"a=1&b=%20"', b"a=1&b=%20"),
        ('"{\\"a\\": 1}"', b'{"a": 1}'),
        ("null", b""),
        ("7.0", b"7.0"),
        ("false", b"false"),
        ('""', b""),
        ('"\\u00fc"', "ü".encode()),
    ],
)  # fmt: skip
def test_a_body_keeps_its_characters(stored: str, sent: bytes) -> None:
    assert call(f'{{"method": "post", "path": "/x", "body":{stored}}}').body == sent


def test_only_a_body_that_is_json_is_called_json() -> None:
    assert dict(call('{"method": "PUT", "path": "/", "body": {"a": 1}}').headers) == {
        "Content-Type": "application/json"
    }
    assert dict(call('{"method": "PUT", "path": "/", "body": "a=1"}').headers) == {}
    named = '{"method": "PUT", "path": "/", "headers": {"content-type": "text/x"}, "body": [1]}'
    assert dict(call(named).headers) == {"content-type": "text/x"}


def test_without_headers_or_body_it_is_still_a_call() -> None:
    read = call('{"method": "GET", "path": "/x?y=1"}')
    assert (read.method, read.path, dict(read.headers), read.body) == ("GET", "/x?y=1", {}, b"")


def test_what_belongs_to_the_connection_or_lets_a_caller_in_is_not_sent_again() -> None:
    headers = (
        '{"HOST": "h", "Connection": "close", "Authorization": "a", "X-API-Key": "k", "Accept": "x", "N": 1, "Z": null}'
    )
    read = call(f'{{"method": "GET", "path": "/", "headers": {headers}}}')
    assert dict(read.headers) == {"Accept": "x", "N": "1"}
    assert read.dropped == ("Authorization", "X-API-Key")


def test_several_values_of_a_header_are_one_line() -> None:
    assert dict(call('{"method": "GET", "path": "/", "headers": {"Accept": ["a", "b"]}}').headers) == {"Accept": "a, b"}


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "null",
        "[]",
        "{",
        '{"method": "GET"',
        '{"method" "GET"}',
        '{"method": "GET", "path": "/x" "body": 1}',
        "{" * 9999,
    ],
)
def test_what_is_no_object_is_refused(stored: str) -> None:
    assert isinstance(read_call(stored), Refused)


def test_nothing_of_it_is_printed() -> None:
    read = call('{"method": "GET", "path": "/", "headers": {"X-Tenant": "private-1"}, "body": {"iban": "private-2"}}')
    assert "private" not in repr(read)
