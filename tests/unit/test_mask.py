"""Credentials in stored requests are hidden by name and by shape; everything else keeps its spelling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.layouts.mask import MASKED, masked_document, masked_fields, masked_text

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "name",
    ["Authorization", "proxy-authorization", "X-API-Key", "api_key", "apiKey", "Cookie", "set-cookie", "password",
     "client_secret", "accessToken", "refresh-token", "private_key", "X-Amz-Security-Token", "token", "PIN",
     "credentials"],
)  # fmt: skip
def test_a_field_s_name_tells(name: str) -> None:
    text = json.dumps({"x": 1, "in": {name: "v-1234", "y": 1.5}})
    masked = masked_document(text)
    assert "v-1234" not in masked
    assert json.loads(masked) == {"x": 1, "in": {name: MASKED, "y": 1.5}}
    assert masked_fields(masked) == (f"in.{name}",)


@pytest.mark.parametrize("name", ["Idempotency-Key", "token_id", "author", "Content-Type", "pinned", "key", "X-Trace"])
def test_other_fields_stay(name: str) -> None:
    text = json.dumps({name: "v-1234"})
    assert masked_document(text) == text


@pytest.mark.parametrize("value", [["a-1234"], {"k": "a-1234"}, [[{"k": ["a-1234", "}"]}]], 1234, True])
def test_a_whole_value_is_hidden_whatever_it_is_made_of(value: object) -> None:
    masked = masked_document(json.dumps({"secret": value, "after": {"b": [1]}}))
    assert json.loads(masked) == {"secret": MASKED, "after": {"b": [1]}}


@pytest.mark.parametrize(
    "shape",
    ["Bearer abcdefgh1234", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "sk_live_abcdefgh12", "AKIAABCDEFGHIJKLMNOP",
     "https://ann:hunter2x@host/x"],
)  # fmt: skip
def test_a_value_s_shape_tells(shape: str) -> None:
    hidden = shape.rpartition(" ")[2].removeprefix("https://ann:").removesuffix("@host/x")
    assert hidden not in masked_document(json.dumps({"note": f"sent {shape} today"}))
    assert hidden not in masked_text(f"HTTP 401: sent {shape} today")


def test_within_texts_that_are_json_or_forms() -> None:
    masked = json.loads(
        masked_document(json.dumps({"body": '{"password": "p-1", "n": 1.10}', "form": "a=1&password=p-2"}))
    )
    assert masked == {"body": f'{{"password": "{MASKED}", "n": 1.10}}', "form": f"a=1&password={MASKED}"}


def test_a_cut_document_hides_what_is_left_of_a_secret() -> None:
    whole = json.dumps({"a": {"password": "very-long-secret-value"}})
    for end in range(len(whole)):
        assert "very" not in masked_document(whole[:end])


def test_numbers_and_spaces_keep_their_spelling() -> None:
    text = '{ "n":1.10,\t"big" : 123456789012345678901234567890, "secret":"x" }'
    assert masked_document(text) == f'{{ "n":1.10,\t"big" : 123456789012345678901234567890, "secret":"{MASKED}" }}'


@given(_JSON)
def test_any_document_stays_a_document_with_the_same_shape(value: object) -> None:
    text = json.dumps({"password": value, "rest": value})
    masked = json.loads(masked_document(text))
    assert masked["password"] in (MASKED, None, "")
    assert set(masked) == {"password", "rest"}


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    masked_document(text)
    masked_text(text)
