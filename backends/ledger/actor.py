"""Who acts, and who asked or approved, as records. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. `operator` is a label; the identity is the OS user (and the role the store adds)."""

    operator: str
    os_user: str  # the name of the real uid
    host: str
    program: str
    uid: int | None = None  # the real one
    sudo_user: str | None = None  # who became this user by sudo, as sudo says
    login_uid: int | None = None  # who logged in, as the kernel keeps it through su and sudo
    foreign_namespace: bool = False  # in a user namespace of its own, where anybody may be any uid

    @property
    def evidence(self) -> dict[str, object]:
        """What an event keeps; what is not known is left out."""
        told: dict[str, object] = {"operator": self.operator, "os_user": self.os_user, "host": self.host}
        more = {"uid": self.uid, "sudo_user": self.sudo_user, "login_uid": self.login_uid}
        told |= {"program": self.program} | {name: value for name, value in more.items() if value is not None}
        return told | ({"foreign_namespace": True} if self.foreign_namespace else {})


@dataclass(frozen=True, slots=True)
class Person:
    """Who asked for a plan or approved it, by the event of the chain."""

    os_user: str
    role: str  # that logged in to the database, as the database says; empty on SQLite
    host: str = ""
    uid: int | None = None
    foreign_namespace: bool = False

    def __str__(self) -> str:
        return f"{self.os_user}|{self.role}"
