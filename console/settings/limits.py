"""The limits in force now: as the config file says them and, where it is stricter, the store's policy.

Both are read again, so that one lowered while a prompt or a batch waits counts at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from console.settings.config import Config, ConfigError, Limits, load_config
from console.settings.policy import BadPolicy, Policy, RuleInForce, read_policy, rules_in_force, stricter
from console.settings.second_person import SecondPerson

_Seen = tuple[int, ...]
NO_POLICY = Policy({}, Limits())


class LimitsInForce:
    """Reads the file again when it changed; a config without a file keeps its limits.

    Somebody who can read the store tells it the policy (`take`), or that it cannot be read (`lose`).
    """

    def __init__(self, config: Config, environment: str | None = None) -> None:
        self._path = None if config.path is None else config.path.absolute()
        self._limits = config.limits
        self._environment = environment
        self._seen: _Seen | None = None
        self._policy: Policy | BadPolicy = NO_POLICY

    def take(self, rows: Mapping[str, str]) -> None:
        """The policy as the store holds it now; an invalid one makes `current` raise."""
        try:
            self._policy = read_policy(rows)
        except ConfigError as problem:
            self._policy = BadPolicy(f"{problem}; its owner fixes it with dlq policy set KEY=VALUE, or KEY=")

    def lose(self, why: str) -> None:
        self._policy = BadPolicy(why)

    @property
    def policy(self) -> Policy:
        """Raises BadPolicy where it cannot be read or is not valid: then nothing may be sent."""
        if isinstance(self._policy, BadPolicy):
            raise BadPolicy(str(self._policy))
        return self._policy

    def current(self) -> Limits:
        """Raises ConfigError where the file or the policy cannot be read or is not valid: then nothing may be sent."""
        return stricter(self._own(), self.policy)

    @property
    def environment(self) -> str | None:
        return self.policy.environment or self._environment

    @property
    def refuses_live(self) -> bool:
        """Paper by the policy, or by this console's own config whatever the policy says."""
        return "paper" in (self.policy.environment, self._environment)

    @property
    def second_person(self) -> SecondPerson:
        return replace(self.policy.second_person, allow_userns=self.policy.allow_userns)

    @property
    def digest(self) -> str:
        return self.policy.digest

    def rules(self) -> tuple[RuleInForce, ...]:
        return rules_in_force(self._own(), self._environment, self.policy)

    def by_policy(self) -> tuple[str, ...]:
        """What the policy, and not the config, says: one line for each key."""
        return tuple(str(rule) for rule in self.rules() if rule.source == "policy")

    def _own(self) -> Limits:
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
