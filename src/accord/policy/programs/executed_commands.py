"""Every command that a line executes, with wrappers unwrapped, and the variables that change programs."""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from accord.policy.programs.wrappers import unwrap
from accord.policy.shell.command_line import CommandLine, parse_line
from accord.policy.shell.syntax import Redirect, SimpleCommand

_CHANGES_PROGRAMS: Final = re.compile(
    r"""
    LD_.* | DYLD_.* | GCONV_PATH | LOCPATH | NLSPATH | MALLOC_.*            # what the loader and libc load
    | PATH | HOME | SHELL | ENV | BASH.* | SHELLOPTS | IFS | PS[0-9] | PROMPT_.* | CDPATH | FPATH | ZDOTDIR
    | GLOBIGNORE | EXECIGNORE | FUNCNEST | HISTFILE | TMPDIR | OLDPWD | PWD | POSIXLY_CORRECT
    | GIT_.* | SSH_.* | SVN_.* | HG.*
    | .*PAGER | .*EDITOR | VISUAL | BROWSER | LESS.* | TERMCAP | TERMINFO.* | EXINIT | VIM.* | NVIM.*
    | PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|HASHSEED$|UTF8$|IOENCODING$|FAULTHANDLER$).*
    | NODE_OPTIONS | NODE_PATH | NODE_.*CERT.* | NPM_CONFIG_.* | npm_config_.* | YARN_.* | BUN_.* | DENO_.*
    | RUBY.* | GEM_.* | BUNDLE_.* | PERL.* | PHP.* | LUA_.*
    | JAVA_.* | _JAVA_.* | JDK_.* | MAVEN_.* | GRADLE_.* | CLASSPATH | DOTNET_.* | COMPLUS_.* | CORECLR_.*
    | MAKE.* | GNUMAKEFLAGS | CC | CXX | CPP | AR | LD | CFLAGS | CXXFLAGS | LDFLAGS | RUSTC.* | RUSTFLAGS
    | CARGO_(?!TERM_|INCREMENTAL$|TARGET_DIR$).*
    | GO(FLAGS|ROOT|PATH|BIN|PROXY|TOOLCHAIN|ENV|NOSUMDB|INSECURE)
    | PIP_.* | UV_.* | POETRY_.* | CONDA_.* | VIRTUAL_ENV | TOX_.* | PYTEST_.*
    | TAR_OPTIONS | GREP_OPTIONS | RIPGREP_CONFIG_PATH | FZF_.* | BAT_.* | MANOPT | MAN.*
    | CURL_.* | WGETRC | OPENSSL_.* | SSL_.* | .*_PROXY | .*_proxy | NETRC | RSYNC_.*
    | DOCKER_.* | COMPOSE_.* | KUBE.* | HELM_.* | AWS_.* | AZURE_.* | GOOGLE_.* | CLOUDSDK_.* | TF_.*
    | ANSIBLE_.*
    | XDG_.* | DISPLAY | DBUS_.* | QT_.* | GTK_.* | OPENAI_.* | ANTHROPIC_.* | ACCORD_.*
    """,
    re.VERBOSE,
)
_HARMLESS_VARIABLES: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|CI|COLORTERM"
)
_PUBLIC_VARIABLES: Final = frozenset(
    """
    HOME PWD USER LOGNAME SHELL PATH LANG TERM TZ HOSTNAME RANDOM SECONDS ? # $ ! 0
    """.split()
)


def changes_programs(name: str) -> bool:
    """Whether setting it can make a program run, load or contact something else."""
    return _CHANGES_PROGRAMS.fullmatch(name) is not None


def is_harmless(name: str) -> bool:
    """Whether setting it changes only how a reading program formats its output."""
    return _HARMLESS_VARIABLES.fullmatch(name) is not None


def is_public(name: str) -> bool:
    """Whether its value is no secret. An unknown variable may hold a key."""
    return name in _PUBLIC_VARIABLES


MAX_DEPTH: Final = 12
MAX_COMMANDS: Final = 150
_LANGUAGE_VARIABLE: Final = re.compile(r"LC_|LANG")


class RedirectedCommand(NamedTuple):
    """A redirection, its command, and the number of commands before it."""

    redirect: Redirect
    command: SimpleCommand
    position: int


@dataclass(slots=True)
class ExecutedCommands:
    """Everything that a line runs. A decision must cover all of it."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    redirects: list[RedirectedCommand] = field(default_factory=list[RedirectedCommand])
    assignment_commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    """The commands that only set variables."""
    loops: bool = False
    """Whether a command may run again after a later one."""
    doubts: list[str] = field(default_factory=list[str])
    """What else may run, or may run differently than it looks."""
    parsed: bool = True
    functions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])
    stdin_variables: list[str] = field(default_factory=list[str])
    """The variables that are expanded in here-documents."""
    nested: set[int] = field(default_factory=set[int])
    """The numbers of the commands in lines that it passes to another shell."""
    lines: list[str] = field(default_factory=list[str])
    """The line itself and every line that it passes to a shell."""


def executed_commands(line: CommandLine) -> ExecutedCommands:
    """Unwrap the commands of a line, and those inside them."""
    found = ExecutedCommands()
    _add_line(line, found, MAX_DEPTH)
    found.doubts = list(dict.fromkeys(found.doubts))
    return found


def _add_line(line: CommandLine, found: ExecutedCommands, depth: int) -> None:
    found.lines.append(line.text)
    found.parsed = found.parsed and line.parsed
    found.loops = found.loops or line.loops
    found.doubts += line.doubts
    found.functions += line.functions
    for command in line.commands:
        found.redirects += [
            RedirectedCommand(redirect, command, len(found.commands)) for redirect in command.redirects
        ]
        if len(found.redirects) > MAX_COMMANDS:
            found.doubts.append("it reads and writes too many files")
            found.parsed = False
            return
        found.stdin_variables += command.stdin_variables
        _add_command(command, found, depth)


def _add_command(command: SimpleCommand, found: ExecutedCommands, depth: int) -> None:
    if depth == 0 or len(found.commands) >= MAX_COMMANDS:
        found.doubts.append("it runs too many commands" if depth else "commands start commands too often")
        found.parsed = False
        return
    for assignment in command.assignments:
        # With an unknown locale, the shell prints a warning that contains the value.
        prints_value = _LANGUAGE_VARIABLE.match(assignment.name) and any(
            word.unquoted is None for word in assignment.values
        )
        if changes_programs(assignment.name) or prints_value:
            found.doubts.append(f"it sets {assignment.name}")
    if not command.words:
        found.assignment_commands.append(command)
        return
    if command.program is None:
        found.doubts.append(f"what {command.words[0].raw[:60]!r} runs is not certain")
        found.commands.append(command)
        return
    unwrapped = unwrap(command)
    if unwrapped is None:
        found.commands.append(command)
        return
    found.doubts += unwrapped.doubts
    if unwrapped.runs_itself:
        found.commands.append(command)
    for inner in unwrapped.commands:
        _add_command(inner, found, depth - 1)
    first = len(found.commands)
    for text in unwrapped.lines:
        _add_line(parse_line(text), found, depth - 1)
    found.nested.update(range(first, len(found.commands)))
