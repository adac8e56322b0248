"""Who counts as a second person, and who this process is: by the real uid, and not by a user namespace of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends.records import Person
from console.services.triage.second_person import is_another_person
from console.settings.identity import current_actor, is_foreign_namespace

ASKER = Person("operator-a", "desk", "db1", 1000)


@pytest.mark.parametrize(
    ("approver", "enforced", "advisory"),
    [
        (Person("operator-a", "desk", "db1", 1000), False, False),
        (Person("operator-b", "desk", "db1", 1001), False, True),
        (Person("operator-a", "boss", "db1", 1000), True, True),
        (Person("operator-b", "desk", "db1", 1000), False, False),  # two names of one uid
        (Person("operator-b", "desk", "db2", 1000), False, True),
        (Person("operator-a", "desk", "db2", 1001), False, False),
        (Person("operator-b", "desk", "db1", 1001, foreign_namespace=True), False, False),
        (Person("operator-b", "boss", "db1", 1001, foreign_namespace=True), True, True),
    ],
)
def test_another_role_counts_and_another_os_user_only_where_it_is_advisory(
    approver: Person, *, enforced: bool, advisory: bool
) -> None:
    assert is_another_person(ASKER, approver, advisory=False) is enforced
    assert is_another_person(ASKER, approver, advisory=True) is advisory
    assert is_another_person(approver, ASKER, advisory=True) is advisory


def test_a_user_namespace_counts_once_the_policy_allows_it() -> None:
    approver = Person("operator-b", "", "db1", 1001, foreign_namespace=True)
    asker = Person("operator-a", "", "db1", 1000)
    assert not is_another_person(asker, approver, advisory=True)
    assert is_another_person(asker, approver, advisory=True, allow_userns=True)
    assert not is_another_person(asker, asker, advisory=True, allow_userns=True)


def test_the_map_of_the_first_namespace_is_the_whole_identity(tmp_path: Path) -> None:
    shown = tmp_path / "uid_map"
    for text, foreign in (
        ("         0          0 4294967295\n", False),
        ("         1       1000          1\n", True),
        ("0 0 65536\n", True),
        ("0 0 4294967294\n4294967294 0 1\n", True),
        ("", True),
    ):
        shown.write_text(text)
        assert is_foreign_namespace(shown) is foreign, text
    assert is_foreign_namespace(tmp_path / "none") is (sys.platform == "linux")


_SAY = "from console.settings.identity import current_actor as a; x = a(None); print(x.os_user, x.foreign_namespace)"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_namespace_of_ones_own_shows() -> None:
    made = subprocess.run(
        ["unshare", "--user", "--map-user=1", sys.executable, "-c", _SAY], capture_output=True, text=True, check=False
    )
    if "Operation not permitted" in made.stderr:
        pytest.skip("this machine allows no user namespaces")
    assert made.stdout.split() == [pwd.getpwuid(1).pw_name, "True"], made.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users at once")
def test_the_real_user_counts_and_not_the_effective_one() -> None:
    code = _SAY.replace("; x =", "; import os; os.seteuid(65534); x =")
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.split()[0] == pwd.getpwuid(0).pw_name


def test_who_became_this_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "oncall")
    actor = current_actor("label")
    assert actor.evidence["sudo_user"] == "oncall"
    assert actor.evidence["uid"] == os.getuid()
    assert (actor.operator, actor.os_user) == ("label", pwd.getpwuid(os.getuid()).pw_name)
    monkeypatch.delenv("SUDO_USER")
    assert "sudo_user" not in current_actor(None).evidence
