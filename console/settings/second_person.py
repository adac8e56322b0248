"""Who may agree to what needs a second person, as a policy says it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

OTHER = "other"


@dataclass(frozen=True, slots=True)
class SecondPerson:
    """Who agrees to what needs a second person: another one, or the asker after a while."""

    delay: int | None = None  # seconds; None: only another person
    allow_userns: bool = False  # another OS user counts also in a user namespace, where anybody can be any uid

    def __str__(self) -> str:
        return OTHER if self.delay is None else f"delay {self.delay}s"
