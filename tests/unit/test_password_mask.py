"""No prefix of a connection string that is being typed shows a piece of its password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.text.password_mask import masked

SECRET = "HUNTER2xyz"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ops:{SECRET}@db1:5433/trading?sslmode=require",
        f"postgres://ops:{SECRET}@db1,db2/trading",
        f"postgresql+asyncpg://:{SECRET}@db1/trading",
        f"POSTGRESQL://ops:{SECRET}@[::1]:5432/x",
        f"postgresql://ops@db1:5433/x?password={SECRET}&sslmode=require",
        f"postgresql://ops@db1/x?sslpassword={SECRET}&sslkey=/k",
        f"host=db1 user=ops password={SECRET} dbname=trading",
        f"password = '{SECRET}' host=db1",
        f"password='a b\\'{SECRET}' host=db1",
        f"host=db1 password=a&{SECRET} user=x",
        f"host=db1 password=a\\ {SECRET} user=x",
        f"ops:{SECRET}@db1/trading",
        f"postgresql:ops:{SECRET}@db1/trading",
        f"postgresql:/ops:{SECRET}@db1/trading",
        f"postgresql://ops:a/{SECRET}@db1/trading",
        f"mysql://ops:{SECRET}@db1/trading",
        f"host=db1 pasword={SECRET}",
    ],
)
def test_no_prefix_shows_a_piece_of_the_password(text: str) -> None:
    begin = text.index(SECRET)
    for end in range(len(text) + 1):
        shown = masked(text[:end])
        assert len(shown) == end, "the cursor stays where it is"
        assert set(shown[begin : min(end, begin + len(SECRET))]) <= {"•"}


@pytest.mark.parametrize(
    "text",
    [
        "/var/lib/orders.db",
        "./a:b.db",
        "sqlite:////var/lib/x:y.db",
        "prod",
        "postgresql://ops@db1:5433/trading?sslmode=require",
        "postgresql://ops@a:1,b:2/x",
        "postgresql://db1/trading",
        "postgresql://[::1]:5433/x",
        "host=::1 port=5432 user=ops dbname=x",
        "service=prod",
    ],
)
def test_what_holds_no_password_is_shown_whole(text: str) -> None:
    assert masked(text) == text


@given(st.text(max_size=60))
def test_any_text_keeps_its_length(text: str) -> None:
    assert len(masked(text)) == len(text)
