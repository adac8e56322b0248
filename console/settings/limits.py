"""The limits as the config file says them now, so that one lowered while a prompt or a batch waits counts at once."""

from __future__ import annotations

import os

from console.settings.config import Config, ConfigError, Limits, load_config

_Seen = tuple[int, ...]


class LimitsInForce:
    """Reads the file again when it changed; a config without a file keeps its limits."""

    def __init__(self, config: Config) -> None:
        self._path = None if config.path is None else config.path.absolute()
        self._limits = config.limits
        self._seen: _Seen | None = None

    def current(self) -> Limits:
        """Raises ConfigError where the file can no longer be read or is no longer valid: then nothing may be sent."""
        if self._path is None:
            return self._limits
        try:
            status = self._path.stat()
        except OSError as problem:
            self._seen = None
            raise ConfigError(f"cannot read the config {self._path}: {problem.strerror}") from None
        seen = _marks(status)
        if seen != self._seen:
            self._seen = None
            self._limits = load_config(str(self._path), {}).limits
            self._seen = seen  # as it was before it was read: a change meanwhile is read the next time
        return self._limits


def _marks(status: os.stat_result) -> _Seen:
    """What changes with the file, also where a tool sets its time back."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
