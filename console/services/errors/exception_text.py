"""An exception as engines print it: its last traceback, and the wrappers around its own words. Pure."""

import re
from typing import Final

CUT: Final = "…[truncated]"
_FRAMES: Final = 12
_QUALIFIED: Final = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){1,8}([A-Z]\w{0,60}|error|gaierror|timeout)(?=[:(\[]|$)", re.ASCII
)
_DOUBLED: Final = re.compile(r"([A-Za-z_]\w{0,60}): (?=\1[\[(:])", re.ASCII)
_INNER: Final = re.compile(r"([A-Za-z_]\w{0,60}\()(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}\((?=[\"'])", re.ASCII)
_NUMBERED: Final = re.compile(r"\w{1,60}\((-?[0-9]{1,5}), ([\"'])(.*)\2\)", re.ASCII | re.DOTALL)
_FRAME: Final = re.compile(r'File "[^"\n]{0,400}", line [0-9]{1,9}, in (\S{1,80})')
# `repr` gives `(number, words)` for these, `str` gives `[Errno number] words`.
_SYSTEM_ERRORS: Final = frozenset(
    ("BlockingIOError", "BrokenPipeError", "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError",
     "ConnectionResetError", "FileNotFoundError", "InterruptedError", "OSError", "PermissionError", "TimeoutError",
     "gaierror", "herror")
)  # fmt: skip


def unstack(text: str) -> tuple[str, str]:
    """(the exception of the last traceback, its function names, innermost first)."""
    start = text.rfind("Traceback (most")
    frames = list(_FRAME.finditer(text, start))
    if not frames:
        return text, ""
    lines = [line for line in text[frames[-1].end() :].split("\n")[1:] if line and not line[0].isspace()]
    names = " < ".join(frame[1] for frame in frames[: -_FRAMES - 1 : -1])
    return " ".join(lines) or text[:start], f" at {names}"


def unwrap(text: str, *, is_cut: bool) -> str:
    """Rewrites `pkg.Type('words')`, `Type: Type('words')` and `pkg.Type: words` to `Type: words`."""
    found = _QUALIFIED.match(text)
    if found:
        text = text[found.start(1) :]
    if doubled := _DOUBLED.match(text):
        text = text[doubled.end() :]
    while text.endswith("))") and (inner := _INNER.match(text)):  # an exception that wraps another
        text = inner[1] + text[inner.end() : -1]
    closed = text[-2:] in ("')", '")', "})", "()")
    if not (closed or is_cut or text.endswith(CUT)):
        return text
    head, _, rest = text.partition("(")
    return _spelled(text, head, rest, closed=closed) if head.isidentifier() else text


def _spelled(text: str, head: str, rest: str, *, closed: bool) -> str:
    if rest == ")":
        return head
    if rest[:1] == "{" and text.endswith("})"):
        return f"{head}: {rest[:-1]}"
    if rest[:1] in ("'", '"') and (not closed or rest[0] == text[-2]):
        return f"{head}: {rest[1:-2] if closed else rest[1:].removesuffix(CUT)}"
    numbered = _NUMBERED.fullmatch(text) if head in _SYSTEM_ERRORS else None
    return f"{head}: [Errno {numbered[1]}] {numbered[3]}" if numbered else text
