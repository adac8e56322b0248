"""Completion for bash, zsh and fish: the scripts that a shell sources, and the words that they ask for at each Tab.

Knows the table of verbs and the config; opens no store and asks nobody.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from console.cli.usage.option import GLOBAL, OPEN, VERSION, Option
from console.cli.usage.value import candidates
from console.cli.usage.verb import VERBS
from console.own_program import OWN_PROGRAM
from console.settings.config import Config, ConfigError, load_config

FILES = ":files"  # a line that asks the shell for file names too
_HARMLESS = re.compile(r"[\w.:/@%+=,\-\[\]]+")  # what no shell reads as anything but a word
_HELP = Option("-h --help", "print help and exit")
_BREAKS = re.compile(r".*[:=]", re.DOTALL)  # bash takes what follows for the word to complete


class _Offer(NamedTuple):
    """What could stand for the last word: words with what they mean, and whether file names could too."""

    words: Iterable[tuple[str, str]] = ()
    files: bool = False


def script(shell: str) -> str:
    """Each asks the program that printed it, by its full path, so that Tab runs nothing of the working directory.

    Where that program is gone, the verbs are offered.
    """
    text = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]
    return text.replace("@PROGRAM@", shlex.join(OWN_PROGRAM)).replace("@VERBS@", " ".join(VERBS))


def answer(shell: str, words: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """The lines that a script reads: `word<tab>meaning`, and `:files`. The last of `words` is the one to complete."""
    if shell == "bash":
        words = _split(words[0] if words else "")[1:]
    before, current = list(words[:-1]), words[-1] if words else ""
    offer = _offer(before, current, environ)
    found = [(word, text) for word, text in offer.words if word.startswith(current) and _HARMLESS.fullmatch(word)]
    cut = _BREAKS.match(current) if shell == "bash" else None
    lines = [f"{word[cut.end() if cut else 0 :]}\t{text}" for word, text in found]
    return [*lines, *((FILES,) if offer.files else ())]


def _split(line: str) -> list[str]:
    """The words of a line that is being typed; a quote may still be open."""
    for end in ("", '"', "'"):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return [*words, ""] if not end and line[-1:].isspace() else words
    return line.split()


def _offer(before: list[str], current: str, environ: Mapping[str, str]) -> _Offer:
    verb = _verb(before)
    usage = VERBS.get(verb or "")
    options = (*usage.every_option, _HELP) if usage else (*GLOBAL, OPEN, VERSION, _HELP)
    by_flag = {name: one for one in options for name in one.names if not one.is_positional}
    config = _config(before, environ)
    if before and (option := by_flag.get(before[-1])) is not None and option.takes:
        return _values(option, current, config)
    if current.startswith("-"):
        flags = [(name, one.text) for one in options if not one.hidden for name in one.names]
        return _Offer([(name, text) for name, text in flags if name.startswith("--") or current == "-"])
    if usage is None:
        return _Offer([(one.name, one.summary) for one in VERBS.values()])
    given = len(_positionals(before, by_flag)) - 1
    places = usage.positionals
    if not places:
        return _Offer()
    option = places[min(given, len(places) - 1)]
    is_full = given >= len(places) and option.nargs not in ("*", "+")
    return _Offer() if is_full else _values(option, current, config)


def _values(option: Option, current: str, config: Config) -> _Offer:
    words = candidates(option, config)
    if option.takes == "GUARD,...":
        given = current.rpartition(",")[0]
        taken = given.split(",")
        words = tuple(f"{given}," * bool(given) + word for word in words if word not in taken)
    return _Offer([(word, "") for word in words], files=option.values in ("files", "stores"))


def _verb(before: Sequence[str]) -> str | None:
    by_flag = {name: one for one in (*GLOBAL, OPEN) for name in one.names}
    return next(iter(_positionals(before, by_flag)), None)


def _positionals(words: Sequence[str], by_flag: Mapping[str, Option]) -> list[str]:
    """The words that are neither options nor their values."""
    found: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in by_flag and bool(by_flag[word].takes)
        else:
            found.append(word)
    return found


def _config(before: Sequence[str], environ: Mapping[str, str]) -> Config:
    """The config that the line names, else the usual one; one that cannot be read has no names to offer."""
    given = next((value for flag, value in pairwise(before) if flag in ("-c", "--config")), None)
    try:
        return load_config(given, environ)
    except ConfigError:
        return Config()


_BASH = r"""_dlq() {
  local line files="" cur="${COMP_WORDS[COMP_CWORD]}"
  [[ $cur == [:=] ]] && cur=""
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then files=1; else COMPREPLY+=("${line%%$'\t'*}"); fi
  done < <(@PROGRAM@ completions bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
  elif [[ ${#COMPREPLY[@]} -eq 0 && $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W "@VERBS@" -- "$cur"))
  elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=] ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _dlq dlq
"""
_ZSH = r"""#compdef dlq
_dlq() {
  local line files=0
  local -a found shown
  while IFS= read -r line; do
    if [[ $line == :files ]]; then files=1; continue; fi
    found+=("${line%%$'\t'*}")
    if [[ -n ${line#*$'\t'} ]]; then shown+=("${line%%$'\t'*}  -- ${line#*$'\t'}"); else shown+=("${line%%$'\t'*}"); fi
  done < <(@PROGRAM@ completions zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( ${#found} )) && compadd -l -d shown -a found
  (( files )) && _files
  (( ! ${#found} && CURRENT == 2 )) && compadd -- @VERBS@
}
if [[ ${funcstack[1]} == _dlq ]]; then _dlq "$@"; else compdef _dlq dlq; fi
"""
_FISH = r"""function __dlq_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (@PROGRAM@ completions fish -- $before[2..-1] "$current" 2>/dev/null)
    test (count $found) -eq 0 -a (count $before) -eq 1; and set found (string split ' ' '@VERBS@')
    for line in $found
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c dlq -e
complete -c dlq -f -a '(__dlq_complete)'
"""
