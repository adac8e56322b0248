"""A stored call is read strictly, and a body keeps its characters."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from venues.integration.call import StoredCall, read_call
from venues.integration.stored_json import Unsendable


def call(text: str) -> StoredCall:
    return read_call(text)


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
    named = '{"method": "PUT", "path": "/", "headers": {"content-type": "application/x+json"}, "body": [1]}'
    assert dict(call(named).headers) == {"content-type": "application/x+json"}


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


def test_several_values_of_a_header_are_several_lines() -> None:
    read = call('{"method": "GET", "path": "/", "headers": {"Accept": ["a", "b"], "N": [1.50, true]}}')
    assert read.headers == (("Accept", "a"), ("Accept", "b"), ("N", "1.50"), ("N", "true"))


GZIP = base64.b64encode(gzip.compress(b"<order/>")).decode()
REFUSED: dict[str, tuple[str, dict[str, object]]] = {
    "CONNECT": ("unsent-terms", {"method": "CONNECT"}),
    "TRACE": ("unsent-terms", {"method": "trace"}),
    "a fragment": ("unsent-terms", {"path": "/x#part"}),
    "a fragment behind a query": ("unsent-terms", {"path": "/x?a=1#part"}),
    "dot segments": ("unsent-terms", {"path": "/a/../b"}),
    "a dot": ("unsent-terms", {"path": "/a/./b?c=.."}),
    "hidden dot segments": ("unsent-terms", {"path": "/a/%2e%2E/b"}),
    "dot segments encoded twice": ("unsent-terms", {"path": "/a/%252e%252e/b"}),
    "dot segments around an encoded slash": ("unsent-terms", {"path": "/a/..%2fb"}),
    "dot segments around an encoded backslash": ("unsent-terms", {"path": "/a/..%5Cb"}),
    "dot segments before a parameter": ("unsent-terms", {"path": "/a/..;x/b"}),
    "an absolute address": ("unparsable", {"path": "https://elsewhere.example/x"}),
    "another host": ("unparsable", {"path": "//elsewhere.example/x"}),
    "a backslash": ("unparsable", {"path": "/\\elsewhere.example/x"}),
    "a method that nobody lists": ("unsent-terms", {"method": "PROPFIND"}),
    "two queries": ("unsent-terms", {"path": "/x?a=1", "query": {"b": "2"}}),
    "a value inside the query": ("unsent-terms", {"query": {"a": {"b": 1}}}),
    "a query that is a list": ("unsent-terms", {"query": ["a", "b"]}),
    "a query with a fragment": ("unsent-terms", {"query": "a=1#b"}),
    "a query that is not plain": ("unsent-terms", {"query": "a=b c"}),
    "an unknown key": ("unmapped-terms", {"url": "https://elsewhere.example/x"}),
    "another unknown key": ("unmapped-terms", {"proxy": {"host": "x"}, "timeout": 5}),
    "an empty header": ("unsent-terms", {"headers": {"X-A": ""}}),
    "a header beyond ASCII": ("unsent-terms", {"headers": {"X-A": "\u00fc"}}),
    "a header twice": ("unparsable", {"headers": {"X-A": "1", "x-a": "2"}}),
    "an object as header": ("unsent-terms", {"headers": {"X-A": {"b": 1}}}),
    "an upgrade": ("unsent-terms", {"headers": {"Upgrade": "websocket", "Connection": "Upgrade"}}),
    "a strange framing": ("unsent-terms", {"headers": {"Transfer-Encoding": "gzip, chunked"}}),
    "base64 that is none": ("unparsable", {"body": "@@", "bodyEncoding": "base64"}),
    "base64 that is an object": ("unparsable", {"body": {"a": 1}, "bodyEncoding": "base64"}),
    "an unknown encoding": ("unsent-terms", {"body": "00ff", "bodyEncoding": "hex"}),
    "gzip over text": ("unsent-terms", {"body": "<order/>", "headers": {"Content-Encoding": "gzip"}}),
    "gzip over JSON": ("unsent-terms", {"body": {"a": 1}, "headers": {"content-encoding": "GZIP"}}),
    "gzip cut off": (
        "unsent-terms", {"body": GZIP[:24], "bodyEncoding": "base64", "headers": {"Content-Encoding": "gzip"}},
    ),
    "deflate that is gzip": (
        "unsent-terms", {"body": GZIP, "bodyEncoding": "base64", "headers": {"Content-Encoding": "deflate"}},
    ),
    "br": ("unsent-terms", {"body": GZIP, "bodyEncoding": "base64", "headers": {"Content-Encoding": "br"}}),
    "XML stored as JSON": ("unsent-terms", {"body": {"a": 1}, "headers": {"Content-Type": "text/xml"}}),
    "parts stored as JSON": (
        "unsent-terms", {"body": {"a": 1}, "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
    ),
    "a form stored as a list": (
        "unsent-terms", {"body": [1], "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
    ),
    "a form with depth": (
        "unsent-terms", {"body": {"a": {"b": 1}}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
    ),
    "a text called JSON": ("unsent-terms", {"body": "hello", "headers": {"Content-Type": "application/json"}}),
    "a number in a text called JSON": (
        "unsent-terms", {"body": "12", "headers": {"Content-Type": "application/json"}},
    ),
    "a charset that cannot hold it": (
        "unsent-terms", {"body": "\u20ac", "headers": {"Content-Type": "text/plain; charset=latin-1"}},
    ),
    "an unknown charset": ("unsent-terms", {"body": "a", "headers": {"Content-Type": "text/plain; charset=q"}}),
    "a body that is not stored": ("unsent-terms", {"body": None, "headers": {"Content-Length": "4"}}),
    "half a character": ("unsent-terms", {"body": "\ud800"}),
    "a body cut off": ("unsent-terms", {"body": "abc", "headers": {"Content-Length": "4000"}}),
    "spelt twice": ("unparsable", {"body": "a", "Body": "b"}),
}  # fmt: skip


@pytest.mark.parametrize(("code", "parts"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_be_another_call_is_refused_by_name(code: str, parts: dict[str, object]) -> None:
    with pytest.raises(Unsendable) as refused:
        read_call(json.dumps({"method": "POST", "path": "/x"} | parts))
    assert refused.value.text.startswith(f"{code}: ")


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SENT: dict[str, tuple[dict[str, object], str, bytes]] = {
    "a query beside the path": ({"query": {"a": "1 2", "b": [True, None, 1.5], "c": "\u00fc&="}},
                                "/x?a=1+2&b=true&b=1.5&c=%C3%BC%26%3D", b""),
    "a query as text": ({"query": "?a=%20&b"}, "/x?a=%20&b", b""),
    "the same query twice": ({"path": "/x?a=%31", "query": {"a": "1"}}, "/x?a=%31", b""),
    "nothing set": ({"query": {}, "timeout": None, "files": [], "retry": False}, "/x", b""),
    "snake case": ({"body": "AP8=", "body_encoding": "BASE64"}, "/x", b"\x00\xff"),
    "a form": ({"body": {"a": "1 2", "b": [1, True], "c": None}, "headers": FORM}, "/x", b"a=1+2&b=1&b=true"),
    "a form as text": ({"body": "a=%20", "headers": FORM}, "/x", b"a=%20"),
    "gzip": ({"body": GZIP, "bodyEncoding": "base64", "headers": {"Content-Encoding": "gzip"}},
             "/x", base64.b64decode(GZIP)),
    "latin-1": ({"body": "\u00fc", "headers": {"Content-Type": "text/plain; charset=ISO-8859-1"}}, "/x", b"\xfc"),
    "a JSON text": ({"body": '{"a":1}', "headers": {"Content-Type": "application/json"}}, "/x", b'{"a":1}'),
    "a JSON string": ({"body": "hello", "headers": {"Content-Type": "application/json", "Content-Length": "7"}},
                      "/x", b'"hello"'),
    "no JSON after all": ({"body": "hello", "headers": {"Content-Type": "application/json", "Content-Length": "5"}},
                          "/x", b"hello"),
    "a quoted path": ({"path": "/a%2Fb%20c/%C3%BC?x=%7e"}, "/a%2Fb%20c/%C3%BC?x=%7e", b""),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "path", "body"), SENT.values(), ids=SENT.keys())
def test_what_is_sent_is_what_was_stored(parts: dict[str, object], path: str, body: bytes) -> None:
    read = call(json.dumps({"method": "POST", "path": "/x"} | parts))
    assert (read.path, read.body) == (path, body)


def test_a_name_twice_is_refused() -> None:
    for stored in (
        '{"method": "GET", "path": "/", "path": "/x"}',
        '{"method": "GET", "path": "/", "query": {"a": 1, "a": 2}}',
    ):
        with pytest.raises(Unsendable):
            read_call(stored)
    assert call('{"method": "PUT", "path": "/", "body": {"a": 1, "a": 2}}').body == b'{"a": 1, "a": 2}'


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
    with pytest.raises(Unsendable) as refused:
        read_call(stored)
    assert refused.value.code == "unparsable"


def test_nothing_of_it_is_printed() -> None:
    read = call('{"method": "GET", "path": "/", "headers": {"X-Tenant": "private-1"}, "body": {"iban": "private-2"}}')
    assert "private" not in repr(read)
