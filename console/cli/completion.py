"""Completion scripts for bash, zsh and fish, generated from the parser. Pure."""

from __future__ import annotations

import argparse


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    table = words(parser)
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](table)


def words(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[str]]]:
    """verb → (help, options and choices); "" is the command itself."""
    table: dict[str, tuple[str, list[str]]] = {"": ("", _options(parser))}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                table[name] = (texts.get(name, ""), _options(sub))
    return table


def _options(parser: argparse.ArgumentParser) -> list[str]:
    found: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        found += [option for option in action.option_strings if option.startswith("--")]
        if not action.option_strings and action.choices:
            found += [str(choice) for choice in action.choices]
    return sorted(set(found))


def _bash(table: dict[str, tuple[str, list[str]]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(options)}" ;;' for name, (_, options) in table.items() if name)
    verbs = " ".join(name for name in table if name)
    return f"""_dlq() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" verb="" word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " {verbs} " in *" $word "*) verb="$word"; break ;; esac
  done
  case "$verb" in
{cases}
    *) words="{verbs} {" ".join(table[""][1])}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [[ ${{#COMPREPLY[@]}} -eq 0 ]] && COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _dlq dlq
"""


def _zsh(table: dict[str, tuple[str, list[str]]]) -> str:
    verbs = "\n".join(f"    '{name}:{text.replace(chr(39), '')}'" for name, (text, _) in table.items() if name)
    cases = "\n".join(f"    {name}) compadd -- {' '.join(o)} ;;" for name, (_, o) in table.items() if name)
    return f"""#compdef dlq
_dlq() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then _describe command verbs; compadd -- {" ".join(table[""][1])}; return; fi
  case "$words[2]" in
{cases}
    *) _files ;;
  esac
}}
compdef _dlq dlq
"""


def _fish(table: dict[str, tuple[str, list[str]]]) -> str:
    lines = ["complete -c dlq -f"]
    for name, (text, options) in table.items():
        if name:
            lines.append(f"complete -c dlq -n __fish_use_subcommand -a {name} -d '{text.replace(chr(39), '')}'")
        where = f"-n '__fish_seen_subcommand_from {name}'" if name else "-n __fish_use_subcommand"
        for option in options:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-a {option}"
            lines.append(f"complete -c dlq {where} {flag}")
    return "\n".join(lines) + "\n"
