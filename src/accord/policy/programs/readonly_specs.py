"""The table of read-only programs with their safe options: coreutils, find, sed and others.

Imported on first use.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from accord.policy.programs.git_commands import git_use
from accord.policy.programs.program_options import option_names
from accord.policy.programs.readonly_commands import ReadOnlyUse
from accord.policy.shell.syntax import Word, WordPart

# find

_FIND_FLAGS: Final = frozenset(
    """
    ! ( ) , -a -and -o -or -not -depth -d -empty -executable -readable -writable -false -true
    -ls -mount -xdev -nogroup -nouser -print -print0 -prune -quit -daystart -noleaf -ignore_readdir_race
    """.split()
)
_FIND_VALUED: Final = frozenset(
    """
    -amin -atime -cmin -ctime -mmin -mtime -gid -uid -group -user -iname -name -ipath -path -iwholename
    -wholename -iregex -regex -regextype -inum -links -lname -ilname -maxdepth -mindepth -perm -size
    -type -xtype -used -printf -fstype
    """.split()
)
_FIND_FILES: Final = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))


def _find_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """Return the folders that `find` starts in. It prints names, no content."""
    words = list(arguments)
    files: list[Word] = []
    while words and words[0].text == "-P":  # the other options follow links out of the roots
        words.pop(0)
    while words and (words[0].text is None or words[0].text[:1] not in ("-", "(", "!", ",")):
        files.append(words.pop(0))
    while words:
        test = words.pop(0).text
        if test in _FIND_FLAGS:
            continue
        if test not in _FIND_VALUED and test not in _FIND_FILES:
            return None
        if not words or words[0].text is None:
            return None
        value = words.pop(0)
        if test in _FIND_FILES:
            files.append(value)
    return ReadOnlyUse(tuple(files))


# Scripts for sed, awk and jq. A script that does not match the harmless patterns counts as unknown.

# A slash in [brackets] does not end a pattern. None is accepted there, so that the end is unambiguous.
_BRACKETS: Final = r"\[\^?\]?(?:\[:[a-z]+:\]|(?!{end})[^\]\[\\\n])*\]"
_PATTERN: Final = rf"(?:(?!{{end}})[^\\\n\[]|\\.|{_BRACKETS})*"
_SLASHED: Final = _PATTERN.replace("{end}", "/")
_DELIMITED: Final = _PATTERN.replace("{end}", "(?P=d)")
_ADDRESS: Final = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_SLASHED}/[IM]*)"
_SED_COMMAND: Final = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:[ \t]*,[ \t]*(?:{_ADDRESS}|\+[0-9]+|~[0-9]+))?)?[ \t]*!?[ \t]*"
    r"(?:[{}]|[pdlnNgGhHxDP=](?![A-Za-z0-9])|[qQ][0-9]*"
    rf"|[sy](?P<d>[/|,#@:%!_]){_DELIMITED}(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpiI0-9]*)"
    r"[ \t]*(?:;|\n|(?=\})|\Z)+"
)
_AWK_SUSPICIOUS: Final = re.compile(
    r"""[|>@`]|\bsystem\b|\bgetline\b|\bENVIRON\b|\bPROCINFO\b|\bSYMTAB\b|\bARGV\b|\bARGC\b|\bclose\b"""
)
_JQ_SUSPICIOUS: Final = re.compile(
    r"\benv\b|\$ENV|\binput\b|\binputs\b|\bimport\b|\binclude\b|\bmodulemeta\b|\$__|\bhalt|\bdebug\b"
    r"|\blimit\b.*\brepeat\b"
)


def _sed_only_reads(script: str) -> bool:
    """Whether a sed script writes no files (`w`), runs no commands (`e`) and reads no other files (`r`)."""
    position = 0
    while position < len(script):
        found = _SED_COMMAND.match(script, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return bool(script.strip())


def _awk_only_reads(program: str) -> bool:
    """Whether an awk program runs and writes nothing and reads only its input."""
    return _AWK_SUSPICIOUS.search(program) is None


def _jq_only_reads(program: str) -> bool:
    """Whether a jq filter reads only its input."""
    return _JQ_SUSPICIOUS.search(program) is None


@dataclass(frozen=True, slots=True)
class ReadOnlySpec:
    """How a program is called when it only reads."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    """Options with a value that is no file."""
    files: frozenset[str] = frozenset()
    """Options whose value is a file that it reads."""
    operands: Literal["files", "text", "none"] = "files"
    max_operands: int | None = None
    """The maximum number of operands, if the next one would be a file that it writes."""
    digits: bool = False
    pattern: bool = False
    """Whether the first operand is a pattern or script, unless one of the options `patterns` gives it."""
    patterns: frozenset[str] = frozenset()
    script: Callable[[str], bool] | None = None
    """Checks that such a script only reads."""
    recursive: frozenset[str] = frozenset()
    """Options that make it read everything below a folder."""
    trees: bool = False
    """Whether it always reads everything below a folder."""
    prints_arguments: bool = False
    """Whether it only prints its arguments."""
    parse: Callable[[tuple[Word, ...]], ReadOnlyUse | None] | None = None


def _spec(flags: str = "", valued: str = "", **fields: object) -> ReadOnlySpec:
    for key in ("files", "patterns", "recursive"):
        if isinstance(text := fields.get(key), str):
            fields[key] = option_names(text)
    options = option_names(flags), option_names(valued)
    return ReadOnlySpec(*options, **fields)  # pyright: ignore[reportArgumentType]


def _test_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`test` and `[`, without the operators that evaluate the name of a variable."""
    words = [word.text for word in arguments]
    operators = {"-v", "-R", "-o", "-a"}
    return None if None in words or operators & set(words) else ReadOnlyUse()


def _cd_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`cd`, but not back to an unknown folder. Without an argument it changes to the home folder."""
    folders = [word for word in arguments if word.text not in ("-L", "-P", "-e", "--")]
    if any((word.text or "").startswith(("-", "+")) for word in folders) or len(folders) > 1:
        return None
    return ReadOnlyUse(tuple(folders) or (Word("~", (WordPart("text", "~"),)),))


def _ps_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`ps` for the processes of the terminal only: the command lines of others may hold secrets."""
    return ReadOnlyUse() if all(word.text in ("-f", "-l", "--forest") for word in arguments) else None


def _date_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`date`, without the options that set the clock."""
    words = [word.text or "?" for word in arguments]
    allowed_options = ("-u", "--utc", "-I", "-R", "-Iseconds", "-Is", "-Idate", "--iso-8601", "--rfc-email")
    return ReadOnlyUse() if all(word.startswith("+") or word in allowed_options for word in words) else None


def _tar_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`tar`, only to list."""
    first = arguments[0].text if arguments else None
    listing = first is not None and set(first.lstrip("-")) <= set("tvfzjJ") and {"t", "f"} <= set(first)
    rest = arguments[1:]
    if not listing or not (first or "").endswith("f") or any((w.text or "-").startswith("-") for w in rest):
        return None
    return ReadOnlyUse(rest[:1], mentions=rest[1:])


def _command_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """`command -v`"""
    words = [word.text for word in arguments]
    return ReadOnlyUse() if words and words[0] in ("-v", "-V") and None not in words else None


_SUMS: Final = _spec("-b -t -z --binary --text --tag --zero")
_GREP: Final = _spec(
    "-EFGPivwxcLlqsbHhnTZzoaIrRUu --extended-regexp --fixed-strings --perl-regexp --ignore-case "
    "--invert-match "
    "--word-regexp --line-regexp --count --files-with-matches --files-without-match --quiet --no-messages "
    "--with-filename "
    "--no-filename --line-number --only-matching --text --recursive --null --color --colour",
    "-e -m -A -B -C -d -D --regexp --max-count --after-context --before-context --context --include "
    "--exclude --exclude-dir "
    "--color --colour --binary-files --label",
    files="-f --file",
    pattern=True,
    patterns="-e -f --regexp --file",
    recursive="-r -R --recursive --dereference-recursive -d",
    digits=True,
)

SPECS: Final[dict[str, ReadOnlySpec]] = {
    "cat": _spec("-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank"),
    "tac": _spec("-b -r", "-s"),
    "head": _spec("-qvz --quiet --verbose --zero-terminated", "-n -c --lines --bytes", digits=True),
    "tail": _spec(
        "-fFqvzr --follow --quiet --verbose --retry",
        "-n -c -s --lines --bytes --pid",
        digits=True,
    ),
    "wc": _spec("-clLmw --lines --words --chars --bytes --max-line-length"),
    "nl": _spec("-p", "-b -d -f -h -i -l -n -s -v -w"),
    "rev": _spec(),
    "fold": _spec("-b -s", "-w"),
    "fmt": _spec("-c -s -t -u", "-w -p -g", digits=True),
    "expand": _spec("-i", "-t"),
    "unexpand": _spec("-a", "-t"),
    "cut": _spec(
        "-n -s -z --complement --only-delimited",
        "-b -c -d -f --fields --delimiter --characters --output-delimiter",
    ),
    "paste": _spec("-s -z", "-d"),
    "join": _spec("-i -z", "-a -e -j -o -t -v -1 -2"),
    "comm": _spec("-z -1 -2 -3 --check-order --nocheck-order --total", "--output-delimiter"),
    "uniq": _spec("-cdDiuz --count --repeated --unique --ignore-case", "-f -s -w", max_operands=1),
    "sort": _spec(
        "-bdfghiMnRrVcCmsuz --numeric-sort --reverse --unique --human-numeric-sort --version-sort "
        "--ignore-case --stable",
        "-k -t --key --field-separator",
    ),
    "tr": _spec("-cCdst --delete --squeeze-repeats --complement", operands="text"),
    "column": _spec("-t -x -n -J", "-c -s -o -N"),
    "seq": _spec("-w", "-f -s", operands="text"),
    "basename": _spec("-a -z", "-s", operands="text"),
    "dirname": _spec("-z", operands="text"),
    "realpath": _spec("-emLPqsz", "--relative-to --relative-base"),
    "readlink": _spec("-femnqsvz"),
    "stat": _spec("-f -L -t -x", "-c --format --printf"),
    "file": _spec("-bhikLNr --brief --mime --mime-type --mime-encoding --dereference"),
    "diff": _spec(
        "-ubwBiqsrNayEZt --brief --unified --ignore-case --ignore-all-space --ignore-blank-lines "
        "--report-identical-files "
        "--new-file --text --side-by-side --recursive --color --context --suppress-common-lines "
        "--strip-trailing-cr",
        "-U -C -x -W --unified --context --exclude --color --label --width",
        recursive="-r --recursive",
    ),
    "cmp": _spec("-b -l -s", "-n -i"),
    "strings": _spec("-a -f", "-n -t -e", digits=True),
    "od": _spec("-abcdfiloshxv", "-A -j -N -t"),
    "hexdump": _spec("-bcCdovx", "-n -s"),
    "xxd": _spec("-b -e -i -p -u", "-c -l -s -g -o", max_operands=1),
    "base64": _spec("-d -i --decode", "-w --wrap"),
    "md5sum": _SUMS, "sha1sum": _SUMS, "sha256sum": _SUMS, "sha512sum": _SUMS, "b2sum": _SUMS,
    "cksum": _spec(),
    "ls": _spec(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 --all --almost-all --directory --human-readable --recursive "
        "--reverse --size "
        "--classify --group-directories-first --no-group --full-time --color --inode --numeric-uid-gid",
        "-I -w -T --ignore --sort --time --time-style --format --color --indicator-style --hide",
    ),
    "tree": _spec(
        "-adfxpsughDFqNQArtcUvinCS --dirsfirst --noreport --prune --gitignore",
        "-L -P -I --filelimit --charset",
    ),
    "du": _spec(
        "-abchkmPsSx0 --all --human-readable --summarize --total --apparent-size",
        "-d -t --max-depth --exclude",
    ),
    "df": _spec("-ahHiklPT --human-readable --total"),
    "pwd": _spec("-L -P", operands="none"),
    "cd": ReadOnlySpec(parse=_cd_use),
    "pushd": ReadOnlySpec(parse=_cd_use),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP,
    "rg": _spec(
        "-inFPSswxvcloqNHIUap0 --ignore-case --smart-case --case-sensitive --line-number --no-line-number "
        "--fixed-strings --pcre2 "
        "--word-regexp --line-regexp --invert-match --count --count-matches --files-with-matches "
        "--files-without-match "
        "--only-matching --quiet --no-heading --heading --no-filename --with-filename --files --json "
        "--vimgrep --multiline "
        "--trim --stats --hidden --no-ignore --no-messages --column --null -u",
        "-e -g -t -T -A -B -C -m -M -d -E -r -j --regexp --glob --iglob --type --type-not --after-context "
        "--before-context "
        "--context --max-count --max-columns --max-depth --max-filesize --color --colors --sort --sortr "
        "--encoding --threads",
        files="-f --file",
        pattern=True,
        patterns="-e -f --regexp --file --files --type-list",
        trees=True,
    ),
    "sed": _spec(
        "-nErsuz --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --debug",
        "-e -l --expression --line-length",
        pattern=True,
        patterns="-e --expression",
        script=_sed_only_reads,
    ),
    **dict.fromkeys(
        ("awk", "gawk", "mawk"),
        _spec("", "-F -v --field-separator", pattern=True, script=_awk_only_reads),
    ),
    "jq": _spec(
        "-rcSesnMCaj --raw-output --compact-output --sort-keys --exit-status --slurp --null-input "
        "--raw-input -R "
        "--monochrome-output --color-output --join-output --ascii-output --tab",
        "--indent",
        pattern=True,
        script=_jq_only_reads,
    ),
    "find": ReadOnlySpec(parse=_find_use),
    "git": ReadOnlySpec(parse=git_use),
    "ps": ReadOnlySpec(parse=_ps_use),
    "date": ReadOnlySpec(parse=_date_use),
    "tar": ReadOnlySpec(parse=_tar_use),
    "test": ReadOnlySpec(parse=_test_use),
    "[": ReadOnlySpec(parse=_test_use),
    "command": ReadOnlySpec(parse=_command_use),
    "echo": ReadOnlySpec(prints_arguments=True),
    "printf": ReadOnlySpec(prints_arguments=True),
    ":": ReadOnlySpec(prints_arguments=True),
    "true": _spec(operands="text"),
    "false": _spec(operands="text"),
    "sleep": _spec(operands="text"),
    "exit": _spec(operands="text"),
    "return": _spec(operands="text"),
    "break": _spec(operands="text"),
    "continue": _spec(operands="text"),
    "shift": _spec(operands="text"),
    "wait": _spec("-n", operands="text"),
    "which": _spec("-a", operands="text"),
    "type": _spec("-aPptf", operands="text"),
    "whereis": _spec("-b -m -s", operands="text"),
    "whoami": _spec(operands="none"),
    "id": _spec("-gGnruz", operands="text"),
    "groups": _spec(operands="text"),
    "uname": _spec("-asnrvmpio", operands="none"),
    "hostname": _spec("-fsiI", operands="none"),
    "arch": _spec(operands="none"),
    "nproc": _spec("--all", operands="none"),
    "uptime": _spec("-ps", operands="none"),
    "free": _spec("-bkmghtw", operands="none"),
    "expr": _spec(operands="text"),
}  # fmt: skip

_WITH_VERSION_OPTION: Final = frozenset(
    """
    git node npm npx yarn pnpm bun deno tsc ruff mypy pyright pytest black rustc rustup make cmake ninja
    gcc g++ clang ruby gem bundle perl php composer docker podman kubectl helm terraform jq rg fd bash
    uv poetry pre-commit
    """.split()
)
VERSION_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_WITH_VERSION_OPTION, ("--version",)),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "cargo"), ("--version", "-V")),
    "go": ("version",),
    "java": ("-version", "--version"),
}
"""The options by which programs print their version."""
