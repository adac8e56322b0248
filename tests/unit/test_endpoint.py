"""Which address a venue is reached at, for every mode and custom endpoint."""

from __future__ import annotations

import pytest

from venues import BadEndpoint, NoPaperMode, Route, VenueError, WrongMode
from venues.endpoint import Endpoint, Hosts, choose
from venues.orders import Mode

HOSTS = Hosts(paper=("https://paper.venue.example",), live=("https://live.venue.example", "https://old.venue.example"))


def chosen(mode: Mode, endpoint: str | None = None, *, allow: bool = False) -> Endpoint:
    return choose("venue", HOSTS, mode, Route(endpoint=endpoint, allow_custom_endpoint=allow))


def test_the_venues_own_address_by_mode() -> None:
    assert chosen("paper") == Endpoint("https://paper.venue.example", "paper.venue.example", custom=False)
    assert chosen("live") == Endpoint("https://live.venue.example", "live.venue.example", custom=False)


def test_no_paper_address_is_no_paper_mode() -> None:
    with pytest.raises(NoPaperMode):
        choose("venue", Hosts(paper=(), live=("https://live.venue.example",)), "paper", Route())


@pytest.mark.parametrize(
    ("given", "url", "host"),
    [
        ("http://127.0.0.1:18080", "http://127.0.0.1:18080", "127.0.0.1:18080"),
        ("http://127.0.0.1:18080/", "http://127.0.0.1:18080", "127.0.0.1:18080"),
        ("http://127.8.9.10", "http://127.8.9.10", "127.8.9.10"),
        ("http://localhost:1", "http://localhost:1", "localhost:1"),
        ("HTTP://LOCALHOST:1", "http://localhost:1", "localhost:1"),
        ("https://[::1]:8443", "https://[::1]:8443", "[::1]:8443"),
    ],
)
def test_loopback_is_always_allowed(given: str, url: str, host: str) -> None:
    assert chosen("paper", given) == Endpoint(url, host, custom=True)
    assert chosen("live", given) == Endpoint(url, host, custom=True)


@pytest.mark.parametrize(
    "given",
    [
        "https://elsewhere.example",
        "https://10.0.0.1",
        "https://127.0.0.1.evil.example",
        "https://localhost.evil.example",
        "https://127.1",
        "https://2130706433",
        "https://0x7f000001",
        "https://[::ffff:127.0.0.1]",
        "https://0.0.0.0",
        "https://[::]",
    ],
)
def test_off_loopback_needs_to_be_allowed(given: str) -> None:
    with pytest.raises(BadEndpoint):
        chosen("paper", given)


def test_an_allowed_address_is_shown() -> None:
    assert chosen("live", "https://gateway.example:444", allow=True).host == "gateway.example:444"


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        "http://elsewhere.example",
        "http://paper.venue.example",
        "http://user:hunter2@127.0.0.1:1",
        "http://127.0.0.1@evil.example",
        "http://127.0.0.1:1?x=1",
        "http://127.0.0.1:1#x",
        "http://127.0.0.1:1/v2",
        "ftp://127.0.0.1",
        "127.0.0.1:8080",
        "//127.0.0.1",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:x",
        "http://127.0.0.1:1\n",
        "http://127.0.0.1 .evil.example",
        "http://127.0.0.1\\.evil.example",
        "http://localhost.:1",
        "http://\uff11\uff12\uff17.0.0.1",
        "http://[::1",
        f"https://{'a' * 64}.example",
        "https://a..example",
        "",
    ],
)
def test_what_is_never_used(given: str, allow: bool) -> None:
    with pytest.raises(VenueError) as caught:
        chosen("paper", given, allow=allow)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    ("mode", "given"),
    [
        ("paper", "https://live.venue.example"),
        ("paper", "https://LIVE.venue.example:8443"),
        ("paper", "https://old.venue.example"),
        ("live", "https://paper.venue.example"),
    ],
)
def test_the_other_modes_address_is_refused(mode: Mode, given: str, allow: bool) -> None:
    with pytest.raises(WrongMode):
        chosen(mode, given, allow=allow)


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "APCA_API_BASE_URL", "VENUE_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert chosen("paper").url == "https://paper.venue.example"
