"""Whether an approval is another person's. Pure: knows identities as the chain tells them, no store and no clock."""

from __future__ import annotations

from backends.records import Person


def is_another_person(asked: Person, approved: Person, *, advisory: bool, allow_userns: bool = False) -> bool:
    """Another login role. Another OS user will do where four eyes is advisory, as on SQLite, which has no roles."""
    if asked.role != approved.role:
        return True
    return advisory and _is_another_os_user(asked, approved, allow_userns=allow_userns)


def _is_another_os_user(asked: Person, approved: Person, *, allow_userns: bool) -> bool:
    if (asked.foreign_namespace or approved.foreign_namespace) and not allow_userns:
        return False  # whoever makes a user namespace is any uid in it
    if asked.host == approved.host and asked.uid is not None and asked.uid == approved.uid:
        return False  # two names of one uid
    return asked.os_user != approved.os_user
