"""The keywords of a connection string: which environment variable stands for each, and what is not possible here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from dlq_sink.error import BadTarget

# Keyword → environment variable ("" where libpq has none).
KEYWORDS: Mapping[str, str] = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "servicefile": "PGSERVICEFILE",
    "options": "PGOPTIONS",
    "application_name": "PGAPPNAME",
    "fallback_application_name": "",
    "client_encoding": "PGCLIENTENCODING",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "load_balance_hosts": "PGLOADBALANCEHOSTS",
    "keepalives": "",
    "keepalives_idle": "",
    "keepalives_interval": "",
    "keepalives_count": "",
    "tcp_user_timeout": "",
    "sslmode": "PGSSLMODE",
    "requiressl": "PGREQUIRESSL",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "sslcompression": "PGSSLCOMPRESSION",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslpassword": "",
    "sslcertmode": "PGSSLCERTMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslsni": "PGSSLSNI",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "requirepeer": "PGREQUIREPEER",
    "require_auth": "PGREQUIREAUTH",
    "channel_binding": "PGCHANNELBINDING",
    "gssencmode": "PGGSSENCMODE",
    "gssdelegation": "PGGSSDELEGATION",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
    "replication": "",
    "min_protocol_version": "PGMINPROTOCOLVERSION",
    "max_protocol_version": "PGMAXPROTOCOLVERSION",
    "sslkeylogfile": "",
    "scram_client_key": "",
    "scram_server_key": "",
    "oauth_issuer": "",
    "oauth_client_id": "",
    "oauth_client_secret": "",
    "oauth_scope": "",
}
SECRETS = frozenset({"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"})
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SESSION_ATTRS = ("any", "read-write", "read-only", "primary", "standby", "prefer-standby")
AUTH_METHODS = ("password", "md5", "gss", "sspi", "scram-sha-256", "none")
_TLS_VERSIONS = ("", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_NO = ("", "0", "false", "off", "no")

# What a value must be one of; a value of the second list is libpq's, but not possible with the driver used here.
_CHOICES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sslmode": (SSL_MODES, ()),
    "sslnegotiation": (("postgres", "direct"), ()),
    "sslcertmode": (("disable", "allow"), ("require",)),
    "sslsni": (("0", "1"), ()),
    "ssl_min_protocol_version": (_TLS_VERSIONS, ()),
    "ssl_max_protocol_version": (_TLS_VERSIONS, ()),
    "target_session_attrs": (SESSION_ATTRS, ()),
    "load_balance_hosts": (("disable", "random"), ()),
    "gssencmode": (("disable", "prefer"), ("require",)),
    "gssdelegation": (("", "0"), ("1",)),
    "gsslib": (("", "gssapi", "sspi"), ()),
    "channel_binding": (("disable", "prefer"), ("require",)),
    "replication": (_NO, ("1", "true", "on", "yes", "database")),
    "min_protocol_version": (("", "3.0"), ("3.2", "latest")),
    "max_protocol_version": (("", "3.0", "latest"), ("3.2",)),
}
_NUMBERS = ("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
_IMPOSSIBLE = (
    "sslkeylogfile", "scram_client_key", "scram_server_key",
    "oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def nearest(word: str) -> str | None:
    """The known keyword that is most like this one."""
    found = get_close_matches(word.lower(), KEYWORDS, n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_keyword(word: str) -> BadTarget:
    """Does not repeat the word: in a string that was split wrongly it may be a piece of a password."""
    near = nearest(word)
    hint = f"did you mean {near}?" if near else "known are host, port, user, dbname, sslmode, service …"
    return BadTarget(f"the DSN has an unknown keyword; {hint}")


def check_values(pairs: Mapping[str, str]) -> None:
    """Raises BadTarget for what no server could be asked, and for what the driver cannot do. Repeats no value."""
    for key, value in pairs.items():
        # A tab or line break is plain text inside of `options`; nowhere else.
        if _CONTROL.search(value.replace("\t", "").replace("\n", "") if key == "options" else value):
            raise BadTarget(f"{key} of the DSN holds control characters")
        if key in _IMPOSSIBLE and value:
            raise BadTarget(f"{key} is not supported here: leave it out of the DSN")
        if key in _NUMBERS and not re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*|", value):
            raise BadTarget(f"{key} of the DSN must be a whole number")
        allowed, impossible = _CHOICES.get(key, ((), ()))
        if value in impossible:
            raise BadTarget(f"{key}={value} is not supported here: the driver cannot do it; use {_listed(allowed)}")
        if allowed and value not in allowed:
            raise BadTarget(f"{key} of the DSN must be {_listed(allowed)}")


def _listed(values: tuple[str, ...]) -> str:
    return (
        " or ".join([", ".join(filter(None, values[:-1])), values[-1]])
        if len(values) > 2
        else " or ".join(filter(None, values))
    )
