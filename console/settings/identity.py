"""Who acts: the OS user is the identity, the operator's name is only a label."""

from __future__ import annotations

import os
import pwd
import socket

from backends.records import Actor
from console import __version__


def current_actor(label: str | None) -> Actor:
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid{uid}"
    return Actor(operator=label or user, os_user=user, host=socket.gethostname(), program=f"dlq-console {__version__}")
