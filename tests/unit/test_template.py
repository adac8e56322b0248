"""What an error's text is remembered by: judging the template gives the group and the category of the text itself."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from console.services.errors import category, fingerprint
from console.services.errors.category_rules import RULES
from console.services.errors.own_name import hide_all
from console.services.errors.template import LONGEST, template
from tests.data.errors import Half, labelled

EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "60"))


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


def test_counts_lines_and_ids_that_begin_with_a_letter_share_a_template() -> None:
    texts = [
        f'File "x.py", line {n}, in send\nHTTP 503 after {n} attempts, asset {n * 1000}, request {key}'
        for n, key in ((7, "e7b2ce98-75cc-a795-ad0a-0000000000aa"), (21, "f3bb0a382e36"), (7404, "ab12" * 5))
    ]
    assert len(set(map(template, texts))) == 1


def test_counts_of_three_digits_and_numbers_of_settings_share_a_template() -> None:
    texts = [f"HTTP 503 after {n} attempts in {n} ms (worker {n})" for n in (7, 154, 404, 503, 2026, 99999)]
    assert set(map(template, texts)) == {"HTTP 503 after 0000 attempts in 0000 ms (worker 0000)"}
    assert {template(f"no asset={n} here") for n in (7, 2026, 99999)} == {"no asset=0000 here"}


@pytest.mark.parametrize(
    "lead", ["http_status=", "rc=", "failed with ", "server said ", "got a ", "HTTP/1.1 ", "(", "x: "]
)
@pytest.mark.parametrize("tail", ["", " Too Many Requests", " from the venue", ".", " Client Error", " ms"])
def test_no_status_is_taken_for_a_count(lead: str, tail: str) -> None:
    """Two statuses under one judgement: what may have arrived would be called never sent."""
    for status in (200, 400, 403, 409, 418, 429, 500, 502, 503, 504):
        text = f"RuntimeError: {lead}{status}{tail}"
        assert category.classify(text) == category._classify(text, whole=True), text


NAMES = (
    "desk-06", "AAPL", "KXBTC-26NOV13-T98000", "timeout", "503", "BTC/USDT", "aa", "funds", "-2010", "message", "T",
    "x-TKT3fa2b1c0d9", "x-TKT503", "mm-12345", "mm--2010", "d503x", "http", "couldn", "no", "gateway", "reset-by",
)  # fmt: skip


@settings(max_examples=300)
@given(st.data())
def test_a_name_never_changes_a_category(data: st.DataObject) -> None:
    """Names are left out of what a judgement is remembered by, and only where no rule could read them."""
    name = data.draw(st.sampled_from(NAMES))
    words = (
        "HTTP ",
        "status ",
        "code ",
        " attempts",
        "i'm ",
        " not found",
        "insufficient ",
        " reset by peer",
        ": ",
        " ",
        "-",
    )
    pieces = data.draw(st.lists(st.sampled_from((*words, name, name, "5", "503", "after ")), min_size=1, max_size=9))
    error = "".join(pieces)
    assert category.classify(error, (name,)) == category._classify(error, whole=True)
    assert fingerprint.fingerprint(error, (name,)) == fingerprint.fingerprint(hide_all(error, (name,)))


_RULED = sorted({word for rule in RULES for word in (*rule.words, *rule.unless)})


@settings(max_examples=EXAMPLES)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(_RULED),
            st.builds(lambda word, at: word[at:], st.sampled_from(_RULED), st.integers(1, 9)),
            st.sampled_from((" ", "  ", "-", "\n", "x", '{"a":"', " no")),
        ),
        max_size=12,
    )
)
def test_the_words_of_rules_are_found_wherever_they_stand(pieces: list[str]) -> None:
    """They are looked for by their longest part, in the text's own parts, most of which are known."""
    text = "".join(pieces)
    assert category._words_of(text) == {word for word in _RULED if word in text}


@pytest.mark.parametrize(
    "text",
    ["HTTP 429", "status 503", '{"code":40310000}', "[Errno 111]", "-2010", "host:5432", "HTTP/1.1 502", "503",
     "a\n503", "returned 404", "the server sent 502 Bad Gateway", "got 422", '"code":  503', "status=503", "code=4130"],
)  # fmt: skip
def test_codes_stay(text: str) -> None:
    assert template(text) == text


_WORDS = """
HTTP |status |code: |Errno |{"code":|{"msg":"|"}|'|"| |: |, |(|)|=|order |timeout|reset by peer|insufficient funds
Traceback (most recent call last):|/v2/orders/|https://|api.alpaca.markets|Nov |-|BTC/USDT|BTCUSDT|acct-7|duplicate|#
| 12 | 4567 | 5432|line 503, in x|Apr 18, 2026| not found| Bad Gateway|returned |answered |too many |"code" : |
asset=|status=|status_code: |code":" | attempts| tries|\n
"""
_PIECES = st.one_of(
    st.sampled_from(("404", "422", "429", "503", "599", "154", "777")),
    st.sampled_from(_WORDS.strip("\n").split("|")),
    st.integers(0, 10**13).map(str),
    st.decimals(0, 10**6, places=4).map(str),
    st.uuids().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.binary(min_size=3, max_size=20).map(bytes.hex),
)


@settings(max_examples=EXAMPLES)
@given(st.lists(_PIECES, min_size=1, max_size=14), st.sampled_from([(), ("acct-7", "BTC/USDT", "")]))
@example(["4462ebfc-5f91-5ef0-9cfb-ac6e7687a66e", "ad38835e-ddd6-ff55-2fa7-3207237751aa", "404", " not found"], ())
def test_random_texts_keep_their_category_and_almost_always_their_group(
    pieces: list[str], masks: tuple[str, ...]
) -> None:
    """A group is only a name: it must be the same for the same text. A category decides what is done next."""
    error = "".join(pieces)[:LONGEST]
    assert category.classify(error) == category._classify(error, whole=True)
    assert fingerprint.fingerprint(error, masks).title
