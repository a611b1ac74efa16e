"""Writes the completion scripts of `accord completion` from the parsers: `make commands`.

The scripts are static. Only the names of agents are asked for, with `accord completion agents`.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from tools.command_tree import Argument, CommandNode, command_tree

from accord.cli.completion_command import SCRIPTS

FOLDER = Path(__file__).resolve().parent.parent / "src" / "accord" / "cli" / "completion"
HEADER = "# Completion of the command accord. Written by `make commands`; do not edit."


def key(node: CommandNode) -> str:
    """Return the command as the words that a user types."""
    return " ".join(["accord", *node.path])


def commands(node: CommandNode) -> Iterable[str]:
    return (command.path[-1] for command in node.subcommands)


def values(argument: Argument, by_kind: dict[str, str], words: Callable[[Iterable[str]], str]) -> str:
    """Return the code that offers an argument's values."""
    return by_kind[argument.values] if isinstance(argument.values, str) else words(argument.values)


def value_cases(node: CommandNode) -> list[tuple[Argument, list[str]]]:
    """Return the options that take a value, with `COMMAND OPTION` for each of their names."""
    return [(one, [f"{key(node)} {flag}" for flag in one.flags]) for one in node.options if one.metavar]


def quoted(text: str) -> str:
    """Quote for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def bash(root: CommandNode) -> str:
    kinds = {
        "file": "_accord_paths -f",
        "dir": "_accord_paths -d",
        "agent": '_accord_words "$(accord completion agents 2>/dev/null)"',
        "": "",
    }

    def words(texts: Iterable[str]) -> str:
        return f"_accord_words {quoted(' '.join(texts))}"

    nodes = list(root.walk())
    paths = "|".join(quoted(key(node)) for node in nodes[1:])
    lines: list[str] = []
    for node in nodes:
        for argument, cases in value_cases(node):
            pattern = "|".join(map(quoted, cases))
            lines.append(
                f"        {pattern}) {values(argument, kinds, words)}; return ;;".replace(") ; r", ") r")
            )
    offers: list[str] = []
    for node in nodes:
        flags = [flag for option in node.options for flag in option.flags]
        plain = [words(commands(node))] if node.subcommands else []
        plain += [values(node.positionals[0], kinds, words)] if node.positionals else []
        other = "; ".join(filter(None, plain)) or ":"
        choice = f"if [[ $cur == -* ]]; then {words(flags)}; else {other}; fi" if flags else other
        offers.append(f"        {quoted(key(node))}) {choice} ;;")
    return f"""{HEADER}
_accord_words() {{
    local IFS=$' \\t\\n'
    COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}}
_accord_paths() {{
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen "$1" -- "$cur"))
}}
_accord() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at=accord i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${{COMP_WORDS[i]}} == -- ]]; then
            if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- "$cur")); else _accord_paths -f; fi
            return
        fi
        case "$at ${{COMP_WORDS[i]}}" in
        {paths}) at="$at ${{COMP_WORDS[i]}}" ;;
        esac
    done
    if [[ $cur == = ]]; then cur=; fi
    if [[ $prev == = ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    case "$at $prev" in
{chr(10).join(lines)}
    esac
    case $at in
{chr(10).join(offers)}
    esac
}}
complete -F _accord accord
"""


def zsh(root: CommandNode) -> str:
    kinds = {
        "file": "_files",
        "dir": "_files -/",
        "agent": 'compadd -- ${(f)"$(accord completion agents 2>/dev/null)"}',
        "": "return 0",
    }

    def words(texts: Iterable[str]) -> str:
        return f"compadd -- {' '.join(map(quoted, texts))}"

    def described(pairs: Iterable[tuple[str, str]]) -> str:
        texts = (quoted(f"{name}:{text}") for name, text in pairs)
        return "\n".join(f"            {text}" for text in texts)

    nodes = list(root.walk())
    lines: list[str] = []
    offers: list[str] = []
    for node in nodes:
        for argument, cases in value_cases(node):
            lines.append(
                f"        {'|'.join(map(quoted, cases))}) {values(argument, kinds, words)}; return ;;"
            )
        flags = [(flag, option.help) for option in node.options for flag in option.flags]
        offers.append(f"        {quoted(key(node))})")
        offers.append(f"            options=(\n{described(flags)}\n            )")
        if node.subcommands:
            pairs = [(command.path[-1], command.summary) for command in node.subcommands]
            offers.append(f"            commands=(\n{described(pairs)}\n            )")
        if node.positionals and node.positionals[0].values:
            offers.append(f"            [[ $PREFIX == -* ]] || {values(node.positionals[0], kinds, words)}")
        offers.append("            ;;")
    return f"""#compdef accord
{HEADER}
_accord() {{
    local at=accord previous=$words[CURRENT-1] i
    local -a options commands
    for ((i = 2; i < CURRENT; i++)); do
        if [[ $words[i] == -- ]]; then
            if ((i + 1 == CURRENT)); then _command_names -e; else _files; fi
            return
        fi
        case "$at $words[i]" in
        {"|".join(quoted(key(node)) for node in nodes[1:])}) at="$at $words[i]" ;;
        esac
    done
    if [[ $PREFIX == --*=* ]]; then
        previous=${{PREFIX%%=*}}
        compset -P '*='
    fi
    case "$at $previous" in
{chr(10).join(lines)}
    esac
    case $at in
{chr(10).join(offers)}
    esac
    (($#commands)) && [[ $PREFIX != -* ]] && _describe -t commands command commands
    [[ $PREFIX == -* ]] && _describe -o -t options option options
    return 0
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _accord "$@"; else compdef _accord accord; fi
"""


def fish(root: CommandNode) -> str:
    kinds = {
        "file": "-r -F",
        "dir": "-xa '(__fish_complete_directories)'",
        "agent": "-xa '(accord completion agents 2>/dev/null)'",
        "": "-x",
    }

    def words(texts: Iterable[str]) -> str:
        return f"-xa {single(' '.join(texts))}"

    def single(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    nodes = list(root.walk())
    lines: list[str] = []
    for node in nodes:
        begin = f"complete -c accord -n {single(f'__accord_at {single(key(node))}')}"
        lines += [f"{begin} -a {one.path[-1]} -d {single(one.summary)}" for one in node.subcommands]
        for option in node.options:
            names = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
            value = f" {values(option, kinds, words)}" if option.metavar else ""
            lines.append(f"{begin} {' '.join(names)}{value} -d {single(option.help)}")
        if node.positionals and node.positionals[0].values:
            offered = values(node.positionals[0], kinds, words)
            lines.append(f"{begin} {offered.replace('-xa', '-a').replace('-r -F', '-F')}")
    return f"""{HEADER}
function __accord_at
    set -l at accord
    for word in (commandline -opc)[2..]
        test "$word" = --; and return 1
        contains -- "$at $word" {" ".join(single(key(node)) for node in nodes[1:])}; and set at "$at $word"
    end
    test "$at" = "$argv[1]"
end
function __accord_command
    contains -- -- (commandline -opc)
end
complete -c accord -f
complete -c accord -n __accord_command -F -a '(__fish_complete_command)'
{chr(10).join(lines)}
"""


def powershell(root: CommandNode) -> str:
    def single(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def offered(argument: Argument) -> str:
        kind = argument.values
        return single(f"<{kind}>") if isinstance(kind, str) else ", ".join(map(single, kind))

    lines: list[str] = []
    for node in root.walk():
        lines.append(f"        {single(key(node))} = @{{")
        entries = [(command.path[-1], command.summary) for command in node.subcommands]
        entries += [(flag, option.help) for option in node.options for flag in option.flags]
        lines += [f"            {single(name)} = {single(text)}" for name, text in entries]
        lines.append("        }")
    value_lines: list[str] = []
    for node in root.walk():
        for argument, cases in value_cases(node):
            value_lines += [f"        {single(case)} = @({offered(argument)})" for case in cases]
        if node.positionals and node.positionals[0].values:
            value_lines.append(f"        {single(key(node))} = @({offered(node.positionals[0])})")
    return f"""{HEADER}
Register-ArgumentCompleter -Native -CommandName accord -ScriptBlock {{
    param($wordToComplete, $commandAst, $cursorPosition)
    $commands = [ordered]@{{
{chr(10).join(lines)}
    }}
    $values = @{{
{chr(10).join(value_lines)}
    }}
    $at = 'accord'
    $previous = ''
    foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {{
        if ($element.Extent.EndOffset -ge $cursorPosition -and $wordToComplete) {{ break }}
        $word = $element.ToString()
        if ($word -ceq '--') {{ return }}
        if ($commands.Contains("$at $word")) {{ $at = "$at $word" }}
        $previous = $word
    }}
    if ($values.ContainsKey("$at $previous")) {{
        $offers = $values["$at $previous"]
    }} elseif (-not $wordToComplete.StartsWith('-') -and $values.ContainsKey($at)) {{
        $offers = $values[$at]
    }} else {{
        $offers = @()
    }}
    # Without results PowerShell completes the names of files and folders.
    foreach ($offer in $offers) {{
        $names = @($offer)
        if ($offer -ceq '<agent>') {{ $names = accord completion agents }}
        elseif ($offer[0] -eq '<') {{ $names = @() }}
        foreach ($name in $names) {{
            if ($name -like "$wordToComplete*") {{
                [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $name)
            }}
        }}
    }}
    if ($values.ContainsKey("$at $previous")) {{ return }}
    foreach ($entry in $commands[$at].GetEnumerator()) {{
        $name = $entry.Key
        if ($name -like "$wordToComplete*" -and ($wordToComplete -or $name[0] -ne '-')) {{
            [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterName', $entry.Value)
        }}
    }}
}}
"""


def scripts() -> dict[Path, str]:
    """Return the content of each file."""
    root = command_tree()
    writers = {"bash": bash, "zsh": zsh, "fish": fish, "powershell": powershell}
    return {FOLDER / SCRIPTS[shell]: write(root) for shell, write in writers.items()}


if __name__ == "__main__":
    for path, text in scripts().items():
        path.write_text(text, "utf-8")
