"""What an error's text is remembered by: judging the template gives the group and the category of the text itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.services.errors import category, fingerprint
from console.services.errors.template import LONGEST, template
from tests.data.errors import Half, labelled


def _judged_alone(error: str, masks: tuple[str, ...]) -> tuple[object, object]:
    """Without any memory: the text as it is."""
    return fingerprint._identify(fingerprint.normalise(error, masks)), category._classify(error, whole=True)


@pytest.mark.parametrize("half", ["dev", "heldout"])
def test_the_template_has_the_group_and_category_of_its_text(half: Half) -> None:
    for one in labelled(half):
        told = (fingerprint.fingerprint(one.error, one.masks), category.classify(one.error))
        assert told == _judged_alone(one.error, one.masks), one.error


def test_texts_that_differ_only_in_numbers_and_ids_share_a_template() -> None:
    rng = random.Random(7)

    def some() -> str:
        number, at = rng.randint(10**9, 10**12), rng.randint(10, 28)
        return (
            f"no answer to {number} ({rng.uniform(1, 900):.4f} s) since 2026-11-{at}T09:{at}:{at}Z for 0x{number:016x}"
        )

    assert len({template(some()) for _ in range(50)}) == 1


@pytest.mark.parametrize(
    "text", ["HTTP 429", "status 503", '{"code":40310000}', "[Errno 111]", "-2010", "host:5432", "HTTP/1.1 502"]
)
def test_codes_stay(text: str) -> None:
    assert template(text) == text


_WORDS = """
HTTP |status |code: |Errno |{"code":|{"msg":"|"}|'|"| |: |, |(|)|=|order |timeout|reset by peer|insufficient funds
Traceback (most recent call last):|/v2/orders/|https://|api.alpaca.markets|Nov |-|BTC/USDT|BTCUSDT|acct-7|duplicate|#
"""
_PIECES = st.one_of(
    st.sampled_from(_WORDS.strip("\n").split("|")),
    st.integers(0, 10**13).map(str),
    st.decimals(0, 10**6, places=4).map(str),
    st.uuids().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.binary(min_size=3, max_size=20).map(bytes.hex),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=14), st.sampled_from([(), ("acct-7", "BTC/USDT", "")]))
def test_random_texts_keep_their_category_and_almost_always_their_group(
    pieces: list[str], masks: tuple[str, ...]
) -> None:
    """A group is only a name: it must be the same for the same text. A category decides what is done next."""
    error = "".join(pieces)[:LONGEST]
    assert category.classify(error) == category._classify(error, whole=True)
    assert fingerprint.fingerprint(error, masks).title
