"""Reads and keeps secrets: venue credentials, provider and hub tokens, store passwords. The only importer of keyring.

Never prints a secret and never puts one into a message.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import keyring
import keyring.errors
from keyring.backend import KeyringBackend

from console.settings.file_safety import read_regular, who_may_replace
from console.settings.secret_names import SetName, hub_set, provider_set, venue_set
from console.settings.secret_remedies import field_missing, set_missing
from console.text.untrusted import safe
from venues import BadCredentials, Credentials, MissingCredentials, SecretSet, credential_fields

_REFUSED = ("keyring.backends.null", "keyring.backends.fail")
# What third-party backends raise if their file, bus or passphrase is missing.
_FAILURES = (keyring.errors.KeyringError, OSError, EOFError, RuntimeError, ValueError)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NOT_VENUES = ("provider", "hub", "store")  # kept under the same beginning
_LARGEST_FILE = 100_000  # bytes of a secret
_WINDOWS_LIMIT = 1200  # characters that fit Windows' 2,560-byte blob in UTF-16


class SecretError(Exception):
    """Secrets cannot be read or kept; `str()` says what to do."""


class Kept(NamedTuple):
    """What one place holds of a set, and the fields that it lacks."""

    place: str
    credentials: Credentials
    missing: tuple[str, ...]


class _Place(NamedTuple):
    label: str
    read: Callable[[str], str | None]  # by field; None: not there


class Vault:
    """Owner-only files first, if a credentials directory is set; then the keyring. A set is read from one place."""

    def __init__(
        self, credentials_dir: Path | None, environ: Mapping[str, str] = os.environ, known: Collection[str] = ()
    ) -> None:
        """`known`: the config's venues and providers, whose accounts and tenants may have sets of their own."""
        given = environ.get("CREDENTIALS_DIRECTORY")
        self._dirs = [path for path in (credentials_dir, Path(given) if given else None) if path is not None]
        self._known = known

    def kept(self, at: SetName, fields: Iterable[str]) -> Kept | None:
        """The set from the first place that has any field of it. Raises SecretError."""
        wanted = tuple(fields)
        for place in self._places(at):
            found = {field: value for field in wanted if (value := place.read(field)) is not None}
            if found:
                missing = tuple(field for field in wanted if not found.get(field))
                return Kept(place.label, Credentials(found), missing)
        return None

    def _places(self, at: SetName) -> Iterator[_Place]:
        try:
            prefixes, services = at.prefixes(self._known), at.services(self._known)
        except UnicodeEncodeError:
            raise SecretError("a name with characters that are not text cannot have secrets") from None
        for folder in self._dirs:
            for prefix in prefixes:
                yield _Place(f"{folder}/{safe(prefix)}.<field>", partial(_read_file, folder, prefix))
        if self._dirs and not _usable():
            return
        for service in services:
            yield _Place(f"{_name(_backend())}, service {safe(service)}", partial(_get, service))

    def keyring(self, at: SetName, fields: Iterable[str]) -> str:
        """The keyring that would keep this set. Raises SecretError if a file is read first, or without a keyring."""
        fields = tuple(fields)
        for folder in self._dirs:
            for path in (folder / f"{prefix}.{field}" for prefix in at.prefixes(self._known) for field in fields):
                if _exists(path):
                    raise SecretError(f"{path} is read before the keyring: change or remove that file instead")
        if self._dirs and not _usable():
            raise SecretError(
                f"no keyring backend is available here: put owner-only files named {at.prefix}.<field> "
                f"into {self._dirs[0]} instead"
            )
        return _name(_backend())

    def write(self, at: SetName, field: str, value: str) -> None:
        backend = _backend()
        name = at.service
        _delete(name, field)
        if len(value) <= _WINDOWS_LIMIT or not type(backend).__module__.startswith("keyring.backends.Windows"):
            _set(name, field, value)
            return
        parts = [value[start : start + _WINDOWS_LIMIT] for start in range(0, len(value), _WINDOWS_LIMIT)]
        for number, part in enumerate(parts):
            _set(name, f"{field}#{number}", part)
        _set(name, f"{field}#n", str(len(parts)))

    def delete(self, at: SetName, field: str) -> bool:
        """Under every name of the set, so that no older one counts instead."""
        _backend()
        gone = [_delete(service, field) for service in at.services(self._known)]
        return any(gone)

    def credentials(self, wanted: SecretSet) -> Credentials:
        """The credentials of an account at a venue. Raises MissingCredentials, or BadCredentials."""
        fields = credential_fields(wanted.kind)
        if not fields:
            return Credentials({})
        if wanted.venue in _NOT_VENUES:
            raise BadCredentials(f"a venue cannot be called {wanted.venue}: other secrets are kept under that name")
        accounts = (wanted.account, None) if wanted.account and wanted.venue_too else (wanted.account,)
        for account in accounts:
            kept = self._kept_or_bad(venue_set(wanted.venue, account, wanted.mode), fields)
            if kept is None:
                continue
            if kept.missing:
                raise MissingCredentials(field_missing(wanted._replace(account=account), kept.missing[0], kept.place))
            return kept.credentials
        raise MissingCredentials(set_missing(wanted))

    def _kept_or_bad(self, at: SetName, fields: Iterable[str]) -> Kept | None:
        try:
            return self.kept(at, fields)
        except SecretError as problem:
            raise BadCredentials(str(problem)) from None

    def where(self) -> str:
        """The places where secrets are read, in order."""
        files = [f"files in {', '.join(map(str, self._dirs))}"] if self._dirs else []
        return ", then ".join(files if files and not _usable() else [*files, _name(_backend())])

    def authorization(self, provider: str, tenant: str | None = None) -> Credentials | None:
        """The Authorization secret of a provider, or of a tenant there; None if not set. Raises BadCredentials."""
        return self._one(provider_set(provider, tenant), "authorization")

    def hub_token(self, store: str) -> Credentials | None:
        return self._one(hub_set(store), "token")

    def _one(self, at: SetName, field: str) -> Credentials | None:
        kept = self._kept_or_bad(at, (field,)) if self._dirs or _usable() else None
        if kept is not None and kept.missing:
            raise BadCredentials(f"{field} in {kept.place} is empty")
        return None if kept is None else kept.credentials


def store_password(store: str, user: str | None = None) -> str | None:
    """A store's password, kept under `password` or its user's name. None leaves it to .pgpass."""
    if not _usable():
        return None
    name = f"dlq-console/store/{store}"
    try:
        return _get(name, "password") or (_get(name, user) if user else None)
    except SecretError:
        return None


def _backend() -> KeyringBackend:
    """The backend that keyring chose. Raises SecretError if it keeps nothing, or keeps plain text."""
    try:
        backend = keyring.get_keyring()
    except (keyring.errors.KeyringError, ImportError, AttributeError, ValueError, TypeError):
        raise SecretError("the keyring backend cannot be loaded: check PYTHON_KEYRING_BACKEND") from None
    chain = getattr(backend, "backends", None)
    first = next(iter(chain), backend) if chain is not None else backend
    kinds = type(first).__mro__
    if any(kind.__module__.startswith(_REFUSED) for kind in kinds):
        raise SecretError(
            "no keyring backend is available here: unlock or install one, or set credentials_dir in the config "
            "to a directory of owner-only files named <venue>.<account>.<mode>.<field>"
        )
    if any("plaintext" in kind.__qualname__.lower() for kind in kinds):
        raise SecretError("the keyring backend keeps secrets in plain text: refused; choose another one")
    return first


def _name(backend: KeyringBackend) -> str:
    return f"keyring {type(backend).__module__}.{type(backend).__qualname__}"


def _usable() -> bool:
    try:
        _backend()
    except SecretError:
        return False
    return True


def _get(name: str, field: str) -> str | None:
    _backend()
    try:
        value = keyring.get_password(name, field)
        count = keyring.get_password(name, f"{field}#n") if value is None else None
        if count is None:
            return value
        return "".join(keyring.get_password(name, f"{field}#{number}") or "" for number in range(int(count)))
    except _FAILURES:
        raise SecretError("the keyring did not answer: is it unlocked?") from None


def _set(name: str, field: str, value: str) -> None:
    try:
        keyring.set_password(name, field, value)
    except _FAILURES:
        raise SecretError("the keyring did not store the secret: is it unlocked?") from None


def _delete(name: str, field: str) -> bool:
    gone = False
    try:
        count = keyring.get_password(name, f"{field}#n")
        parts = [f"{field}#{number}" for number in range(int(count))] + [f"{field}#n"] if count else []
        for item in (field, *parts):
            if keyring.get_password(name, item) is not None:
                keyring.delete_password(name, item)
                gone = True
    except keyring.errors.PasswordDeleteError:
        return gone
    except _FAILURES:
        raise SecretError("the keyring did not answer: is it unlocked?") from None
    return gone


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError as problem:
        if problem.errno in _NOT_THERE:
            return False
        raise SecretError(f"{path} cannot be read: {problem.strerror}") from None
    return True


def _read_file(folder: Path, prefix: str, field: str) -> str | None:
    path = folder / f"{prefix}.{field}"
    return _owner_only(path) if _exists(path) else None


def _owner_only(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
            raise SecretError(f"{path} must belong to you and be readable by you alone (chmod 600)")
        if others := who_may_replace(path.parent):
            raise SecretError(f"{others} may change the credentials in {path.parent}: run chmod go-w on it")
        return read_regular(path, _LARGEST_FILE).decode("utf-8").rstrip("\r\n")
    except OSError as problem:
        raise SecretError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise SecretError(f"{path} cannot be read: it is not text") from None
