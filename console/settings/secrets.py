"""Reads and keeps secrets: venue credentials, provider and hub tokens, store passwords. The only importer of keyring.

Never prints a secret and never puts one into a message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import keyring
import keyring.errors
from keyring.backend import KeyringBackend

from venues import BadCredentials, Credentials, Mode, SecretSet, credential_fields

_REFUSED = ("keyring.backends.null", "keyring.backends.fail")
# What third-party backends raise if their file, bus or passphrase is missing.
_FAILURES = (keyring.errors.KeyringError, OSError, EOFError, RuntimeError, ValueError)
_WINDOWS_LIMIT = 1200  # characters that fit Windows' 2,560-byte blob in UTF-16


class SecretError(Exception):
    """Secrets cannot be read or kept; `str()` says what to do."""


def service(venue: str, mode: Mode) -> str:
    return f"dlq-console/{venue}/{mode}"


class Vault:
    """Owner-only files first, if a credentials directory is set; then the keyring."""

    def __init__(self, credentials_dir: Path | None, environ: Mapping[str, str] = os.environ) -> None:
        given = environ.get("CREDENTIALS_DIRECTORY")
        self._dirs = [path for path in (credentials_dir, Path(given) if given else None) if path is not None]

    def read(self, venue: str, mode: Mode, field: str) -> str | None:
        if (path := self._file(venue, mode, field)) is not None:
            return _owner_only(path)
        if self._dirs and not _usable():
            return None
        return _get(service(venue, mode), field)

    def _file(self, venue: str, mode: Mode, field: str) -> Path | None:
        for folder in self._dirs:
            path = folder / f"{venue}.{mode}.{field}"
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                raise SecretError(f"cannot read {path}: {problem.strerror}") from None
            return path
        return None

    def keyring(self, venue: str, mode: Mode, fields: Iterable[str] = ()) -> str:
        """The keyring that would keep these. Raises SecretError if a file would be read first, or without a keyring."""
        for path in filter(None, (self._file(venue, mode, field) for field in fields)):
            raise SecretError(f"{path} is read before the keyring: change or remove that file instead")
        if self._dirs and not _usable():
            raise SecretError(
                f"no keyring backend is available here: put owner-only files named {venue}.{mode}.<field> "
                f"into {self._dirs[0]} instead"
            )
        return _name(_backend())

    def write(self, venue: str, mode: Mode, field: str, value: str) -> None:
        backend = _backend()
        name = service(venue, mode)
        _delete(name, field)
        if len(value) <= _WINDOWS_LIMIT or not type(backend).__module__.startswith("keyring.backends.Windows"):
            _set(name, field, value)
            return
        parts = [value[start : start + _WINDOWS_LIMIT] for start in range(0, len(value), _WINDOWS_LIMIT)]
        for number, part in enumerate(parts):
            _set(name, f"{field}#{number}", part)
        _set(name, f"{field}#n", str(len(parts)))

    def delete(self, venue: str, mode: Mode, field: str) -> bool:
        _backend()
        return _delete(service(venue, mode), field)

    def credentials(self, wanted: SecretSet) -> Credentials:
        """The credentials of a venue's client, looked up by name, then by kind. Raises BadCredentials."""
        name, kind, mode = wanted.venue, wanted.kind, wanted.mode
        found: dict[str, str] = {}
        for field in credential_fields(kind):
            try:
                value = self.read(name, mode, field) or (self.read(kind, mode, field) if kind != name else None)
            except SecretError as problem:
                raise BadCredentials(str(problem)) from None
            if not value:
                raise BadCredentials(f"{name} {mode}: {field} is not set: run dlq secrets set {name} --{mode}")
            found[field] = value
        return Credentials(found)

    def where(self) -> str:
        """The places where secrets are read, in order."""
        files = [f"files in {', '.join(map(str, self._dirs))}"] if self._dirs else []
        return ", then ".join(files if files and not _usable() else [*files, _name(_backend())])

    def authorization(self, provider: str) -> Credentials | None:
        """The Authorization secret of a provider; None if none is set. Raises BadCredentials."""
        return self._one("provider", provider, "authorization")

    def hub_token(self, store: str) -> Credentials | None:
        return self._one("hub", store, "token")

    def _one(self, kind: str, name: str, field: str) -> Credentials | None:
        """Kept like a venue's secret, with the name in place of the mode."""
        try:
            value = self.read(kind, cast("Mode", name), field) if self._dirs or _usable() else None
        except SecretError as problem:
            raise BadCredentials(str(problem)) from None
        return Credentials({field: value}) if value else None


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
            "to a directory of owner-only files named <venue>.<mode>.<field>"
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
        raise SecretError("the keyring did not take the secret: is it unlocked?") from None


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


def _owner_only(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
            raise SecretError(f"{path} must belong to you and be readable by you alone (chmod 600)")
        return path.read_text("utf-8").rstrip("\r\n")
    except OSError as problem:
        raise SecretError(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise SecretError(f"cannot read {path}: it is not text") from None
