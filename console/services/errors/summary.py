"""What an error says, in one line: the final exception, what caused it, and the words of HTML and JSON bodies.

Pure. Decodes escapes, so its text is untrusted: whoever shows it makes it safe afterwards. Knows neither entries nor
screens; the whole error stays with the entry.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final, NamedTuple

from backends.layouts.mask import masked_error
from console.services.errors.exception_text import CUT, unwrap

READ_LENGTH: Final = 8_192  # bounds the time for errors of megabytes
_MOST_CAUSES: Final = 3
_TRACEBACK: Final = "Traceback (most recent call last"
_CHAINED: Final = re.compile(
    r"\n\s*(?:The above exception was the direct cause of|During handling of the above exception, another)[^\n]*"
)
_FRAME: Final = re.compile(r'File "[^"\n]{0,400}", line [0-9]{1,9}(?:, in (\S{1,80}))?')
_GROUPED: Final = re.compile(r"^[ ]{0,40}[|+][-+|0-9]*[ ]?", re.MULTILINE)  # the margin of an exception group
_TYPED: Final = re.compile(r"((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60}): (?=\S)", re.ASCII)
_CALLED: Final = re.compile(r"((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60})\((.*)\)", re.ASCII | re.DOTALL)
_BARE_TYPE: Final = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{2,60}", re.ASCII)
_CAUSED: Final = re.compile(r"\(Caused by ([A-Z]\w{2,60})\((.{0,2000}?)\)\)?\s*$", re.DOTALL)
_PAIR: Final = re.compile(r"\('([^']{3,200})', ([A-Z]\w{2,60})\((.{0,600})\)\)\s*$", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrt\"'/\\]))")
NUMBERED: Final = re.compile(r"\[(?:Errno|WinError|SSL:? ?)\s?[-A-Z0-9_ ]{0,60}\]\s?")
_ARGUMENTS: Final = re.compile(r"(?:-?[0-9]{1,5}, )?[\"'](.*)[\"'](?:, .{0,200})?", re.DOTALL)
_OBJECT: Final = re.compile(r"<[\w.]{3,120} object at 0x[0-9a-f]{4,20}>:?\s?")
_TAILS: Final = re.compile(
    r"""\ \(_ssl\.c:[0-9]+\)|\ \('[0-9.:a-f]{3,40}',\ [0-9]{1,5}(?:,\ [0-9]+)*\)|\ ssl:\w+\ \[.{0,300}$|
        \nFor\ more\ information\ .{0,400}$|\ \[type=\w+,\ input_value=.{0,400}?\]|
        \ for\ url:?\ '?https?://[^\s'>]{0,400}'?|\ with\ url:\ /\S{0,400}""",
    re.VERBOSE | re.DOTALL,
)
_STATUS: Final = re.compile(
    r"(?:(?:Client|Server) error '([0-9]{3} [^']{2,60})'|([0-9]{3}) (?:Client|Server) Error:? ?)\s*"
)
_POOL: Final = re.compile(r"HTTPS?ConnectionPool\(host='([^']{1,120})', port=[0-9]{1,5}\): ")
# These names say nothing that the words behind them do not say.
_PLAIN_TYPES: Final = frozenset(
    ("APIError", "ApiException", "BaseError", "ClientError", "ClientResponseError", "Error", "Exception",
     "ExchangeError", "HTTPError", "HTTPStatusError", "HttpError", "OSError", "ReadTimeout", "RejectedError",
     "RequestException", "RuntimeError", "ValueError")
)  # fmt: skip


_CODED: Final = re.compile(r" \([-\w]{1,40}\)$")  # a venue's code behind its words


class ErrorSummary(NamedTuple):
    """`causes`: the types of the exceptions behind it, the nearest first."""

    type: str
    message: str
    causes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """`VenueUnreachable ← ConnectTimeout`, `KeyError: qty`, `HTTP 429 after 3 attempts`."""
        head = self.head
        return " ← ".join((head, *self.causes)) if self.causes else head

    @property
    def head(self) -> str:
        if not self.message:
            return self.type
        if not self.type or (self.type in _PLAIN_TYPES and " " in self.message):
            return self.message
        return f"{self.type}: {self.message}"

    def within(self, room: int) -> str:
        """The line where it fits, else without the code, the arguments or the type around the message."""
        line = self.line
        if len(line) <= room:
            return line
        if not self.causes and (coded := _CODED.search(line)) is not None:
            line = line[: coded.start()]
            if len(line) <= room:
                return line
            return ErrorSummary(self.type, _CODED.sub("", self.message)).within(room)
        if not self.type:
            return line
        if self.causes:
            return " ← ".join((self.type, *self.causes))
        return self.message if " " in self.message else line


def summarise(error: str) -> ErrorSummary:
    return _summarise(_bounded(error))


def _bounded(error: str) -> str:
    """A traceback names its exception at the end, every other error at its beginning."""
    if len(error) <= READ_LENGTH:
        return error
    return error[-READ_LENGTH:] if _TRACEBACK in error[:READ_LENGTH] else error[:READ_LENGTH]


@lru_cache(maxsize=2_048)
def _summarise(error: str) -> ErrorSummary:
    text = _decoded(error).strip()
    if not text:
        return ErrorSummary("", "")
    parts = [_exception(part) for part in _chain(text)]
    last, earlier = parts[-1], [one for one in reversed(parts[:-1]) if one.type]
    if not last.message and not last.type and earlier:  # cut before it was named
        last, earlier = earlier[0], earlier[1:]
    causes = [name for one in (last, *earlier) for name in ((*one.causes,) if one is last else (one.type, *one.causes))]
    shown = [name for n, name in enumerate(causes) if name != last.type and name not in causes[:n]]
    return ErrorSummary(last.type, last.message, tuple(shown[:_MOST_CAUSES]))


def _decoded(text: str) -> str:
    """`\\u2014` and `\\n` as the characters that they stand for. What this uncovers is masked like the rest."""
    if "\\" not in text:
        return text
    shown = _ESCAPE.sub(_character, text)
    shown = shown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves make one character
    return masked_error(shown)


def _character(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    if digits:
        return chr(int(digits, 16))
    return {"n": "\n", "r": "\n", "t": " "}.get(found[3], found[3])


def _chain(text: str) -> list[str]:
    """The exceptions of a traceback as texts, the final one last; of anything else the text itself."""
    if _TRACEBACK not in text and not _FRAME.search(text):
        return [text]
    if "|" in text:
        text = _GROUPED.sub("", text)
    return [_named(part) for part in _CHAINED.split(text)]


def _named(part: str) -> str:
    """The lines behind the last frame that belong to the exception."""
    frames = list(_FRAME.finditer(part))
    if not frames:
        return part.replace(_TRACEBACK, "").strip(" ):\n")
    rest = part[frames[-1].end() :].split("\n")[1:]
    start = next((n for n, line in enumerate(rest) if line and not line[0].isspace()), None)
    if start is not None:
        return "\n".join(rest[start:])
    before = part[: frames[0].start()].partition(_TRACEBACK)[0].strip()
    where = f" at {frames[-1][1]}" if frames[-1][1] else ""
    return before or f"the traceback is cut{where}"


def _exception(text: str) -> ErrorSummary:
    """One exception's text."""
    told = text.strip()
    is_cut = told.endswith((CUT, "…"))
    causes: tuple[str, ...] = ()
    if caused := _CAUSED.search(told):
        causes = (_with_words(caused[1], _OBJECT.sub("", _argument(caused[2]))),)
        told = told[: caused.start()].rstrip()
    if paired := _PAIR.search(told):
        causes = (_with_words(paired[2], _argument(paired[3])), *causes)
        told = f"{told[: paired.start()]}{paired[1].rstrip('.')}"
    name, message = _typed(unwrap(told, is_cut=is_cut))
    message = _said(message)
    if name and message.startswith(f"{name}: "):
        message = message[len(name) + 2 :]
    return ErrorSummary(name, message, causes)


def _typed(text: str) -> tuple[str, str]:
    """(the exception's name without its modules, its words)."""
    if found := _TYPED.match(text):
        name = found[1].rpartition(".")[2]
        if name[:1].isupper() or name in ("error", "timeout", "gaierror"):
            inner_name, inner = _typed(text[found.end() :])
            if name in _PLAIN_TYPES and inner_name:
                return inner_name, inner
            return name, text[found.end() :]
    if called := _CALLED.fullmatch(text):
        return called[1].rpartition(".")[2], _argument(called[2])
    if _BARE_TYPE.fullmatch(text) and not text.isupper():
        return text.rpartition(".")[2], ""
    return "", text


def _argument(text: str) -> str:
    """The words of an exception's arguments as `repr` spells them."""
    found = _ARGUMENTS.fullmatch(text.strip())
    return found[1] if found else text.strip()


def _with_words(name: str, words: str) -> str:
    words = " ".join(NUMBERED.sub("", words).split())
    if ": " in words and _TYPED.match(words):
        words = words.partition(": ")[2]
    return f"{name}: {words}" if words else name


def _said(text: str) -> str:
    """The message without what surrounds it: bodies, numbers of the system, addresses."""
    text = _body(text)
    if "ConnectionPool" in text:
        text = _POOL.sub(r"\1: ", text)
    if status := _STATUS.match(text):
        text = f"{status[1] or status[2]} {text[status.end() :]}"
    if "[" in text:
        text = NUMBERED.sub("", text)
    text = _TAILS.sub("", text)
    return _lines(text)


def _lines(text: str) -> str:
    """The first line; with the next ones where it only announces them."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    first = lines[0]
    announced = first.endswith(":") or "validation error" in first
    shown = ": ".join(line.rstrip(":") for line in lines[:3]) if announced else first
    shown = " ".join(shown.split()).strip()
    return shown[1:-1] if len(shown) > 2 and shown[0] == shown[-1] and shown[0] in "'\"" else shown


def _body(text: str) -> str:
    if "<" in text and (told := _markup(text)) is not None:
        return told
    if "{" in text and (found := _json(text)) is not None:
        return found
    return text


_HTML: Final = re.compile(r"<!doctype html|<html|<head|<body|<title|<center|<h1", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(title|h1|h2)\b[^>]{0,200}>(.{1,300}?)(?:</\1|$)", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]{0,400}>?")
_XML_WORDS: Final = re.compile(r"<(?:Message|message|faultstring)>(.{1,400}?)</", re.DOTALL)
_XML_CODE: Final = re.compile(r"<(?:Code|code|faultcode)>([\w.:-]{1,60})</")
_SERVERS: Final = (
    "cloudflare", "cloudfront", "nginx", "openresty", "akamai", "varnish", "envoy", "apache", "tomcat", "awselb",
    "incapsula", "microsoft-azure",
)  # fmt: skip
_PARTED: Final = re.compile(r"^[\w.-]{1,120}\.[a-z]{2,12} \| ")  # a page's title often begins with its host
_RPC: Final = re.compile(r"StatusCode\.(\w{2,40}).{0,80}?details = \"([^\"]{1,300})", re.DOTALL)


def _markup(text: str) -> str | None:
    """An HTML or XML body reduced to its title or message; None where it is none."""
    if (page := _HTML.search(text)) is not None:
        return _page(text[: page.start()], text[page.start() :])
    if "StatusCode." in text and (call := _RPC.search(text)):
        return f"{call[1]}: {call[2]}"
    if words := _XML_WORDS.search(text):
        code = _XML_CODE.search(text)
        return f"{_text(words[1])} ({code[1]})" if code else _text(words[1])
    return None


def _page(before: str, html: str) -> str:
    titled = _TITLE.search(html)
    said = _PARTED.sub("", _text(titled[2])) if titled else ""
    lead = before.rstrip().removesuffix("b'").rstrip(" :,-'\"\n")
    low = html.lower()
    server = next((name for name in _SERVERS if name in low), "")
    kind = f"(HTML, {server})" if server else "(HTML)"
    status = re.search(r"\b[1-5][0-9]{2}\b", lead)
    if said and status and status[0] in said:
        lead = ""
    return " ".join(part for part in (f"{lead}:" if lead and said else lead, said, kind) if part)


def _text(html: str) -> str:
    from html import unescape  # its tables take milliseconds to load, and few errors are HTML

    return " ".join(unescape(_TAG.sub(" ", html)).split())


_WORD_KEYS: Final = (
    "message", "msg", "retMsg", "ret_msg", "sMsg", "error_message", "errorMessage", "error_msg", "err_msg", "errmsg",
    "error_description", "detail", "details", "reason", "reject_reason", "rejectReason", "description", "title",
    "error", "errors", "err", "response", "statuses", "data", "result", "label", "body", "cause",
)  # fmt: skip
_CODE_KEYS: Final = ("code", "retCode", "ret_code", "sCode", "error_code", "errorCode", "errno", "label")
_CUT_WORDS: Final = re.compile(
    r"""["'](?:message|s?[mM]sg|retMsg|error_message|detail|reason|error)["']\s{0,3}:\s{0,3}["']([^"'{}]{3,400})"""
)
_CUT_CODE: Final = re.compile(r"""["'](?:code|retCode|sCode)["']\s{0,3}:\s{0,3}["']?(-?\w{1,40})""")
_DEPTH: Final = 6


def _json(text: str) -> str | None:
    """A JSON or Python object in the text reduced to its message and code; None where it has no message."""
    start = text.index("{")
    bracket = text.find("[", 0, start)
    if bracket >= 0 and text[bracket + 1 : start].strip() == "":
        start = bracket
    lead, body = text[:start].rstrip(), text[start:]
    document = _document(body)
    if document is None:
        words, code = _CUT_WORDS.search(body), _CUT_CODE.search(body)
        found = (words[1], code[1] if code else "") if words else None
    else:
        found = _words(document, _DEPTH)
    if found is None:
        return None
    said, code_word = " ".join(found[0].split()), found[1]
    shown = f"{said} ({code_word})" if code_word and code_word not in said else said
    return f"{_lead(lead)}{shown}"


def _lead(text: str) -> str:
    """What stands before a body, as far as it tells something: a status, not the venue's name alone."""
    told = text.strip().rstrip(":,-=(b'\"").strip()
    if not told or (re.search(r"[0-9]", told) is None and " " not in told):
        return ""
    return f"{told.rstrip(':')}: "


def _document(body: str) -> object:
    try:
        return json.JSONDecoder().raw_decode(body)[0]
    except (ValueError, RecursionError):
        return _literal(body)


def _literal(body: str) -> object:
    """A Python object as `repr` spells it."""
    end = max(body.rfind("}"), body.rfind("]")) + 1
    if "'" not in body or not end or len(body) > READ_LENGTH // 2:
        return None
    from ast import literal_eval  # few errors need it

    try:
        document: object = literal_eval(body[:end])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return document


def _words(held: object, depth: int) -> tuple[str, str] | None:
    """(the message, the code) of a body, wherever its venue puts them."""
    if depth <= 0:
        return None
    if isinstance(held, list):
        return next((found for one in held[:5] if (found := _words(one, depth - 1))), None)
    if isinstance(held, str):
        return (held, "") if held.strip() else None
    if not isinstance(held, dict):
        return None
    code = next((str(held[key]) for key in _CODE_KEYS if _is_code(held.get(key))), "")
    for key in _WORD_KEYS:
        if (found := _words(held.get(key), depth - 1)) is not None:
            inner = found[1] or code
            return found[0], "" if inner == found[0] else inner
    return None


def _is_code(held: object) -> bool:
    if isinstance(held, bool) or held in (0, "0", 200, "200", ""):
        return False
    return isinstance(held, int) or (isinstance(held, str) and len(held) <= 40 and " " not in held)
