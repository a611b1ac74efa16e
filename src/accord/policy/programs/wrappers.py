"""Programs and shell built-ins that start other commands.

`unwrap` looks one level deep. If it cannot see what is started, the result has a doubt. Nothing is guessed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from accord.policy.programs.program_options import option_names, parse_arguments
from accord.policy.shell.syntax import UNKNOWN, Assignment, SimpleCommand, Word


@dataclass(slots=True)
class UnwrappedCommand:
    """What a command starts."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    """The commands that it starts."""
    lines: list[str] = field(default_factory=list[str])
    """The lines that it passes to a shell."""
    doubts: list[str] = field(default_factory=list[str])
    """What else it may start."""
    runs_itself: bool = False
    """Whether it also does something itself, which must be allowed separately."""


# Built-ins of the shell that run a text, set variables, or change how the rest of the line is parsed.

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Without `x`, which prints the value of every variable that is used.
_SHELL_FLAGS: Final = re.compile(r"[-+](?:[efuCbmh]+|[efuCbmh]*o)")
_SHELL_OPTIONS: Final = frozenset("pipefail errexit nounset noglob noclobber monitor".split())
_SETS_VARIABLE: Final = re.compile(r"%[^A-Za-z%]*n")


def _eval(command: SimpleCommand) -> UnwrappedCommand:
    texts = [word.unquoted if not word.has_glob else None for word in command.arguments]
    if None in texts:
        return UnwrappedCommand(doubts=["eval runs a text that is only known when it runs"], runs_itself=True)
    return UnwrappedCommand(lines=[" ".join(text or "" for text in texts)])


def _trap(command: SimpleCommand) -> UnwrappedCommand:
    words = list(command.arguments)
    if words and words[0].text == "--":
        words.pop(0)
    if not words or words[0].text in ("-p", "-l"):
        return UnwrappedCommand()
    if words[0].unquoted is None:
        return UnwrappedCommand(doubts=["trap runs a text that is only known when it runs"], runs_itself=True)
    return UnwrappedCommand(lines=[words[0].unquoted] if words[0].unquoted not in ("", "-") else [])


def _source(command: SimpleCommand) -> UnwrappedCommand:
    return UnwrappedCommand(
        doubts=[f"{command.name} lets a file change what the rest of the line does"], runs_itself=True
    )


def _changes_parsing(command: SimpleCommand) -> UnwrappedCommand:
    return UnwrappedCommand(
        doubts=[f"{command.name} changes what the rest of the line does"], runs_itself=True
    )


def _set(command: SimpleCommand) -> UnwrappedCommand:
    words = [word.text for word in command.arguments]
    while words and (flag := words.pop(0)):
        if flag == "--":
            return UnwrappedCommand()  # sets only positional parameters, whose values are never trusted
        if not _SHELL_FLAGS.fullmatch(flag):
            break
        if flag.endswith("o") and (not words or words.pop(0) not in _SHELL_OPTIONS):
            break
        if not words:
            return UnwrappedCommand()
    return UnwrappedCommand(doubts=["set is called in an unusual way"], runs_itself=True)


def _declaration(command: SimpleCommand) -> UnwrappedCommand:
    """`export A=1` is handled like `A=1`."""
    assignments: list[Assignment] = []
    for word in command.arguments:
        found = _ASSIGNMENT.match(word.raw)
        if found:
            assignments.append(Assignment(found[1], (word,)))
        elif word.text is not None and _NAME.fullmatch(word.text):
            assignments.append(Assignment(word.text))
        else:
            return UnwrappedCommand(doubts=[f"{command.name} is called in an unusual way"], runs_itself=True)
    if not assignments:
        return UnwrappedCommand(runs_itself=True)  # it prints every variable
    return UnwrappedCommand(
        [SimpleCommand(assignments=(*command.assignments, *assignments), via=(*command.via, command.name))]
    )


def _sets_named_variables(command: SimpleCommand, flags: str, valued: str = "") -> UnwrappedCommand:
    """Handle a command that sets the variables it names."""
    parsed = parse_arguments(command.arguments, option_names(flags), option_names(valued))
    if parsed is None or not all(_NAME.fullmatch(word.text or "") for word in parsed.operands):
        return UnwrappedCommand(doubts=[f"{command.name} is called in an unusual way"], runs_itself=True)
    assignments = tuple(Assignment(word.text or "") for word in parsed.operands)
    return UnwrappedCommand(
        [SimpleCommand(assignments=(*command.assignments, *assignments), via=(*command.via, command.name))]
    )


def _read(command: SimpleCommand) -> UnwrappedCommand:
    return _sets_named_variables(command, "-r -s -e", "-p -d -n -N -t -u")


def _unset(command: SimpleCommand) -> UnwrappedCommand:
    if any(word.text == "git" for word in command.arguments):
        # Without `-v` it removes a function: the one of `safe_git`.
        return UnwrappedCommand(doubts=["unset changes what git does"], runs_itself=True)
    return _sets_named_variables(command, "-v")


def _printf(command: SimpleCommand) -> UnwrappedCommand | None:
    """`printf FORMAT ...` only prints, unless it sets a variable (`-v NAME`, `%n`)."""
    format_text = command.arguments[0].text if command.arguments else ""
    if (
        format_text is not None
        and (format_text == "--" or not format_text.startswith("-"))
        and not _SETS_VARIABLE.search(format_text.replace("%%", ""))
    ):
        return None
    return UnwrappedCommand(doubts=["printf is called in an unusual way"], runs_itself=True)


def _command(command: SimpleCommand) -> UnwrappedCommand | None:
    words = command.arguments
    if words and words[0].text == "-p":
        words = words[1:]
    if not words:
        return UnwrappedCommand()
    if words[0].text is not None and words[0].text.startswith("-"):
        return None  # `command -v` is checked like a program
    return UnwrappedCommand([command.inner_command(words)])


_PARSING_BUILTINS: Final = frozenset(
    """
    alias unalias shopt enable hash bind complete compgen compopt mapfile readarray let getopts coproc
    caller fc history popd dirs ulimit umask
    """.split()
)
BUILTINS: Final[dict[str, Callable[[SimpleCommand], UnwrappedCommand | None]]] = {
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "set": _set,
    "read": _read,
    "unset": _unset,
    "printf": _printf,
    "command": _command,
    **dict.fromkeys(("export", "declare", "typeset", "readonly", "local"), _declaration),
    **dict.fromkeys(_PARSING_BUILTINS, _changes_parsing),
}


SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"))
# Syntax that a POSIX shell reads differently, for example as the end of a quote or as a file to write.
_BASH_SYNTAX: Final = re.compile(
    r"""\$['"]|\[\[|\(\(|[<>]\(|<<<|&>|\|&|;;?&|\+=|=\(|\{[^}]*(,|\.\.)|\$\{[^}]*[/^,:@]"""
    r"""|\b(function|select|coproc|time|source|let)\b"""
)
_BASH_LIKE_SHELLS: Final = frozenset(("sh", "bash", "dash", "ash"))

COMMAND_STARTERS: Final = frozenset(
    """
    at batch bwrap capsh catchsegv chroot chrt cgexec conda crun daemonize direnv doas dotenv dumb-init
    entr expect fakechroot fakeroot firejail flatpak flock foreman gdb gosu hatch hyperfine ltrace mise
    nix nix-shell nodemon nsenter numactl parallel pdm perf pipenv pipx pkexec poetry proot proxychains
    proxychains4 prlimit rtk run-parts runuser rye screen script setarch setpriv socat start-stop-daemon
    strace su-exec systemd-run taskset tini tmux torify torsocks unshare uv uvx valgrind watchexec
    xvfb-run npx bunx pnpx bundle yarn pnpm npm bun busybox toybox ssh su sudo
    """.split()
)
"""Programs whose arguments may be another command. Forbidden commands are searched there as well."""


@dataclass(frozen=True, slots=True)
class _PrefixSpec:
    """A program that only starts the command after its own options."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    skipped_operands: int = 0
    digits: bool = False
    runs_itself: bool = False
    """Whether it changes the rights of the command and must be allowed itself."""
    appends_arguments: bool = False
    """Whether it adds arguments that are unknown."""


_PREFIX_SPECS: Final = {
    "nohup": _PrefixSpec(),
    "nice": _PrefixSpec(valued=option_names("-n --adjustment"), digits=True),
    "ionice": _PrefixSpec(option_names("-t --ignore"), option_names("-c -n --class --classdata")),
    "time": _PrefixSpec(option_names("-p")),
    "timeout": _PrefixSpec(
        option_names("--foreground --preserve-status -v --verbose"),
        option_names("-k -s --kill-after --signal"),
        1,
    ),
    "stdbuf": _PrefixSpec(valued=option_names("-i -o -e --input --output --error")),
    "setsid": _PrefixSpec(option_names("-c -f -w --ctty --fork --wait")),
    "unbuffer": _PrefixSpec(),
    "builtin": _PrefixSpec(),
    "exec": _PrefixSpec(option_names("-c -l"), option_names("-a")),
    "busybox": _PrefixSpec(),
    "toybox": _PrefixSpec(),
    "sudo": _PrefixSpec(
        option_names(
            "-n -E -H -S -k -b -i -s -A -P -B --non-interactive --preserve-env --set-home --stdin --login "
            "--shell",
        ),
        option_names("-u -g -h -p -C -T -D -R -r -t --user --group --host --prompt --chdir"),
        runs_itself=True,
    ),
    "doas": _PrefixSpec(option_names("-n -L -s"), option_names("-u -C"), runs_itself=True),
    "pkexec": _PrefixSpec(option_names("--disable-internal-agent"), option_names("--user"), runs_itself=True),
    "xargs": _PrefixSpec(
        option_names("-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty"),
        option_names("-n -P -L -I -d -s -E --max-args --max-procs --delimiter --max-chars"),
        appends_arguments=True,
    ),
    "chroot": _PrefixSpec(valued=option_names("--userspec --groups"), skipped_operands=1, runs_itself=True),
}  # fmt: skip


def unwrap(command: SimpleCommand) -> UnwrappedCommand | None:
    """Return what the command starts, one level deep; None if it is no wrapper."""
    unwrapped = _unwrap(command)
    if unwrapped is not None and not is_system_program(command.program):
        unwrapped.runs_itself = True  # the name is known, but the program may be another one
    return unwrapped


def is_system_program(program: str | None) -> bool:
    """Whether the name can only mean the program of the system, or the first one on PATH."""
    return program is not None and (
        "/" not in program or program.rpartition("/")[0] in ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
    )


def _unwrap(command: SimpleCommand) -> UnwrappedCommand | None:
    name = command.name
    if name in BUILTINS and name == command.program:
        return BUILTINS[name](command)
    if name in SHELLS:
        return _unwrap_shell(command)
    if name in _PREFIX_SPECS:
        return _unwrap_prefix(command, _PREFIX_SPECS[name])
    return _SPECIAL_WRAPPERS[name](command) if name in _SPECIAL_WRAPPERS else None


def _unwrap_prefix(command: SimpleCommand, prefix: _PrefixSpec) -> UnwrappedCommand:
    parsed = parse_arguments(
        command.arguments, prefix.flags, prefix.valued, digits=prefix.digits, first_operand_ends=True
    )
    if parsed is None:
        return UnwrappedCommand(doubts=[f"{command.name} is called in an unusual way"], runs_itself=True)
    words = tuple(parsed.operands[prefix.skipped_operands :])
    # `sudo A=1 program` sets variables too. `time` is a reserved word before an ordinary command.
    sets_variables = prefix.runs_itself or command.name == "time"
    extra_assignments: list[Assignment] = []
    while (
        sets_variables
        and words
        and "=" in (words[0].text or "")
        and not (words[0].text or "").startswith("=")
    ):
        extra_assignments.append(Assignment((words[0].text or "").partition("=")[0], (words[0],)))
        words = words[1:]
    if prefix.appends_arguments and words:
        placeholder = next((value.text for value in parsed.values("-I")), None)
        words = tuple(
            UNKNOWN if placeholder and placeholder in (word.unquoted or word.raw) else word for word in words
        )
        words = (*words, *_piped_arguments(command))
    if not words:
        # `exec >log`, or a wrapper without a command.
        return UnwrappedCommand(runs_itself=prefix.runs_itself)
    return UnwrappedCommand(
        [command.inner_command(words, *extra_assignments)], runs_itself=prefix.runs_itself
    )


def _piped_arguments(command: SimpleCommand) -> tuple[Word, ...]:
    """Return the arguments from a pipe. They are known only if `echo` writes them, and may be more."""
    source = command.piped_from
    return (*source.arguments, UNKNOWN) if source and source.name in ("echo", "printf") else (UNKNOWN,)


def _env(command: SimpleCommand) -> UnwrappedCommand:
    flags = option_names("-i -0 -v --ignore-environment --null --debug")
    parsed = parse_arguments(
        command.arguments, flags, option_names("-u -C --unset --chdir"), first_operand_ends=True
    )
    if parsed is None:
        return UnwrappedCommand(doubts=["env is called in an unusual way"], runs_itself=True)
    assignments: list[Assignment] = []
    words = list(parsed.operands)
    if words and words[0].text == "-":
        words.pop(0)
    while words and (text := words[0].unquoted or words[0].raw) and "=" in text:
        assignments.append(Assignment(text.partition("=")[0], (words.pop(0),)))
    if not words:
        return UnwrappedCommand(runs_itself=True)  # it prints the environment
    if parsed.has("-C", "--chdir"):
        return UnwrappedCommand(
            [command.inner_command(tuple(words), *assignments)],
            doubts=["env changes the folder"],
            runs_itself=True,
        )
    return UnwrappedCommand([command.inner_command(tuple(words), *assignments)])


def _unwrap_shell(command: SimpleCommand) -> UnwrappedCommand:
    name, arguments = command.name, list(command.arguments)
    doubts: list[str] = [] if name in _BASH_LIKE_SHELLS else [f"{name} has another syntax than bash"]
    runs_text = False
    while arguments:
        text = arguments[0].text
        if text is None or text in ("-", "--") or not text.startswith(("-", "+")):
            break
        arguments.pop(0)
        if text in ("--login", "--noprofile", "--norc"):
            continue
        letters = text[1:]
        if text.startswith("--") or not set(letters) <= set("celunhfbmo"):
            doubts.append(f"{name} is called with {text}")
        if "o" in letters and arguments:
            option = arguments.pop(0).text
            if option not in ("pipefail", "errexit", "nounset", "noglob", "noclobber"):
                doubts.append(f"{name} is called with {text} {option}")
        runs_text = runs_text or (text[0] == "-" and "c" in letters)
    if arguments and arguments[0].text in ("-", "--"):
        arguments.pop(0)
    if not runs_text:
        return _shell_script(command, arguments, doubts)
    if not arguments or arguments[0].unquoted is None:
        return UnwrappedCommand(
            doubts=[*doubts, f"{name} runs a text that is only known when it runs"], runs_itself=True
        )
    if name != "bash" and _BASH_SYNTAX.search(arguments[0].unquoted):
        doubts.append(f"{name} may read it differently than bash")
    return UnwrappedCommand(lines=[arguments[0].unquoted], doubts=doubts, runs_itself=bool(doubts))


def _shell_script(command: SimpleCommand, arguments: list[Word], doubts: list[str]) -> UnwrappedCommand:
    if arguments and arguments[0].text != "-s":
        return UnwrappedCommand(doubts=doubts, runs_itself=True)
    texts = list(command.stdin)
    if command.piped_from and command.piped_from.name in ("echo", "printf", "cat"):
        texts += [word.unquoted for word in command.piped_from.arguments if word.unquoted]
        texts += command.piped_from.stdin
    doubts.append(f"{command.name} runs what it reads")
    return UnwrappedCommand(lines=texts, doubts=doubts, runs_itself=True)


def _find(command: SimpleCommand) -> UnwrappedCommand | None:
    """Return the commands of `find -exec PROGRAM ... ;`. `find` itself is checked separately."""
    inner: list[SimpleCommand] = []
    words = list(command.arguments)
    while words:
        if words.pop(0).text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        inner_words: list[Word] = []
        while words and words[0].text not in (";", "+"):
            word = words.pop(0)
            inner_words.append(UNKNOWN if "{}" in word.raw else word)
        if inner_words:
            inner.append(command.inner_command(tuple(inner_words)))
    return UnwrappedCommand(inner, runs_itself=True) if inner else None


def _su(command: SimpleCommand) -> UnwrappedCommand:
    words = command.arguments
    lines = [
        after.unquoted
        for word, after in pairwise(words)
        if word.text in ("-c", "--command") and after.unquoted is not None
    ]
    return UnwrappedCommand(lines=lines, runs_itself=True)


def _watch(command: SimpleCommand) -> UnwrappedCommand:
    parsed = parse_arguments(
        command.arguments,
        option_names("-d -g -e -t -c -b -x -p"),
        option_names("-n --interval"),
        first_operand_ends=True,
    )
    if parsed is None or any(word.unquoted is None for word in parsed.operands):
        return UnwrappedCommand(doubts=["watch is called in an unusual way"], runs_itself=True)
    return UnwrappedCommand(lines=[" ".join(word.unquoted or "" for word in parsed.operands)])


_SPECIAL_WRAPPERS: Final[dict[str, Callable[[SimpleCommand], UnwrappedCommand | None]]] = {
    "env": _env,
    "find": _find,
    "su": _su,
    "watch": _watch,
}
