"""Programs that start other programs: what they start, and whether they do anything besides.

`open_one` looks one level deep. What cannot be seen through is a doubt, never a guess.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..lists import words
from ..shell.words import UNKNOWN, Assignment, Command, Word
from .builtins import BUILTINS
from .opened import Opened
from .options import names, parse

SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"))
# What a plain POSIX shell takes for something else, such as the end of a quote or a file to write to.
_ONLY_BASH: Final = re.compile(
    r"""\$['"]|\[\[|\(\(|[<>]\(|<<<|&>|\|&|;;?&|\+=|=\(|\{[^}]*(,|\.\.)|\$\{[^}]*[/^,:@]|\b(function|select|coproc|time|source|let)\b"""
)
_LIKE_BASH: Final = frozenset(("sh", "bash", "dash", "ash"))

STARTERS: Final = words(
    """
    at batch bwrap capsh catchsegv chroot chrt cgexec conda crun daemonize direnv doas dotenv dumb-init
    entr expect fakechroot fakeroot firejail flatpak flock foreman gdb gosu hatch hyperfine ltrace mise
    nix nix-shell nodemon nsenter numactl parallel pdm perf pipenv pipx pkexec poetry proot proxychains
    proxychains4 prlimit rtk run-parts runuser rye screen script setarch setpriv socat start-stop-daemon
    strace su-exec systemd-run taskset tini tmux torify torsocks unshare uv uvx valgrind watchexec
    xvfb-run npx bunx pnpx bundle yarn pnpm npm bun busybox toybox ssh su sudo
    """
)
"""Programs whose arguments may well be another command: what is forbidden is looked for in there, too."""


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A program that does nothing but start the command behind its own options."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    skip: int = 0
    digits: bool = False
    itself: bool = False
    """Whether it changes what the command may do, so that it has to be allowed on its own."""
    more: bool = False
    """Whether it adds arguments nobody has seen yet."""


_PREFIXES: Final = {
    "nohup": _Prefix(),
    "nice": _Prefix(valued=names("-n --adjustment"), digits=True),
    "ionice": _Prefix(names("-t --ignore"), names("-c -n --class --classdata")),
    "time": _Prefix(names("-p")),
    "timeout": _Prefix(names("--foreground --preserve-status -v --verbose"), names("-k -s --kill-after --signal"), 1),
    "stdbuf": _Prefix(valued=names("-i -o -e --input --output --error")),
    "setsid": _Prefix(names("-c -f -w --ctty --fork --wait")),
    "unbuffer": _Prefix(),
    "builtin": _Prefix(),
    "exec": _Prefix(names("-c -l"), names("-a")),
    "busybox": _Prefix(),
    "toybox": _Prefix(),
    "sudo": _Prefix(
        names("-n -E -H -S -k -b -i -s -A -P -B --non-interactive --preserve-env --set-home --stdin --login --shell"),
        names("-u -g -h -p -C -T -D -R -r -t --user --group --host --prompt --chdir"),
        itself=True,
    ),
    "doas": _Prefix(names("-n -L -s"), names("-u -C"), itself=True),
    "pkexec": _Prefix(names("--disable-internal-agent"), names("--user"), itself=True),
    "xargs": _Prefix(
        names("-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty"),
        names("-n -P -L -I -d -s -E --max-args --max-procs --delimiter --max-chars"),
        more=True,
    ),
    "chroot": _Prefix(valued=names("--userspec --groups"), skip=1, itself=True),
}  # fmt: skip


def open_one(command: Command) -> Opened | None:
    """What this command starts, one level deep; None if it is no wrapper."""
    opened = _open(command)
    if opened is not None and not is_system_program(command.program):
        opened.itself = True  # a program of that name, but who knows what it is
    return opened


def is_system_program(program: str | None) -> bool:
    """Whether the name can only mean the system's own program (or the first one on the user's PATH)."""
    return program is not None and (
        "/" not in program or program.rpartition("/")[0] in ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
    )


def _open(command: Command) -> Opened | None:
    name = command.name
    if name in BUILTINS and name == command.program:
        return BUILTINS[name](command)
    if name in SHELLS:
        return _shell(command)
    if name in _PREFIXES:
        return _prefix(command, _PREFIXES[name])
    return _SPECIAL[name](command) if name in _SPECIAL else None


def _prefix(command: Command, prefix: _Prefix) -> Opened:
    parsed = parse(
        command.arguments, prefix.flags, prefix.valued, digits=prefix.digits, first_operand_ends=True
    )
    if parsed is None:
        return Opened(doubts=[f"{command.name} is called in an unusual way"], itself=True)
    words = tuple(parsed.operands[prefix.skip :])
    # `sudo A=1 program`: sudo sets variables, too, and `time` is a word of the shell before an ordinary command.
    sets = prefix.itself or command.name == "time"
    set_too: list[Assignment] = []
    while sets and words and "=" in (words[0].text or "") and not (words[0].text or "").startswith("="):
        set_too.append(Assignment((words[0].text or "").partition("=")[0], (words[0],)))
        words = words[1:]
    if prefix.more and words:
        hole = next((value.text for value in parsed.values("-I")), None)
        words = tuple(UNKNOWN if hole and hole in (word.spelled or word.raw) else word for word in words)
        words = (*words, *_piped(command))
    if not words:
        # `exec >log`, or a wrapper that has nothing to start.
        return Opened(itself=prefix.itself)
    return Opened([command.inner(words, *set_too)], itself=prefix.itself)


def _piped(command: Command) -> tuple[Word, ...]:
    """The arguments that come through the pipe: known only where a plain `echo` writes them, and then not for sure."""
    source = command.source
    return (*source.arguments, UNKNOWN) if source and source.name in ("echo", "printf") else (UNKNOWN,)


def _env(command: Command) -> Opened:
    flags = names("-i -0 -v --ignore-environment --null --debug")
    parsed = parse(command.arguments, flags, names("-u -C --unset --chdir"), first_operand_ends=True)
    if parsed is None:
        return Opened(doubts=["env is called in an unusual way"], itself=True)
    assignments: list[Assignment] = []
    words = list(parsed.operands)
    if words and words[0].text == "-":
        words.pop(0)
    while words and (text := words[0].spelled or words[0].raw) and "=" in text:
        assignments.append(Assignment(text.partition("=")[0], (words.pop(0),)))
    if not words:
        return Opened(itself=True)  # it prints the environment
    if parsed.has("-C", "--chdir"):
        return Opened(
            [command.inner(tuple(words), *assignments)], doubts=["env changes the folder"], itself=True
        )
    return Opened([command.inner(tuple(words), *assignments)])


def _shell(command: Command) -> Opened:
    name, arguments = command.name, list(command.arguments)
    doubts: list[str] = [] if name in _LIKE_BASH else [f"{name} is not read like bash"]
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
    if not arguments or arguments[0].spelled is None:
        return Opened(doubts=[*doubts, f"{name} runs a text that is only known when it runs"], itself=True)
    if name != "bash" and _ONLY_BASH.search(arguments[0].spelled):
        doubts.append(f"{name} may read it otherwise than bash")
    return Opened(lines=[arguments[0].spelled], doubts=doubts, itself=bool(doubts))


def _shell_script(command: Command, arguments: list[Word], doubts: list[str]) -> Opened:
    if arguments and arguments[0].text != "-s":
        return Opened(doubts=doubts, itself=True)
    texts = list(command.stdin)
    if command.source and command.source.name in ("echo", "printf", "cat"):
        texts += [word.spelled for word in command.source.arguments if word.spelled]
        texts += command.source.stdin
    doubts.append(f"{command.name} runs what it reads")
    return Opened(lines=texts, doubts=doubts, itself=True)


def _find(command: Command) -> Opened | None:
    """`find -exec PROGRAM ... ;`: once for every command in it. Find itself stays to be judged."""
    inner: list[Command] = []
    words = list(command.arguments)
    while words:
        if words.pop(0).text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        started: list[Word] = []
        while words and words[0].text not in (";", "+"):
            word = words.pop(0)
            started.append(UNKNOWN if "{}" in word.raw else word)
        if started:
            inner.append(command.inner(tuple(started)))
    return Opened(inner, itself=True) if inner else None


def _su(command: Command) -> Opened:
    words = command.arguments
    lines = [
        after.spelled
        for word, after in pairwise(words)
        if word.text in ("-c", "--command") and after.spelled is not None
    ]
    return Opened(lines=lines, itself=True)


def _watch(command: Command) -> Opened:
    parsed = parse(
        command.arguments, names("-d -g -e -t -c -b -x -p"), names("-n --interval"), first_operand_ends=True
    )
    if parsed is None or any(word.spelled is None for word in parsed.operands):
        return Opened(doubts=["watch is called in an unusual way"], itself=True)
    return Opened(lines=[" ".join(word.spelled or "" for word in parsed.operands)])


_SPECIAL: Final[dict[str, Callable[[Command], Opened | None]]] = {
    "env": _env,
    "find": _find,
    "su": _su,
    "watch": _watch,
}
