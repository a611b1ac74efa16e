"""The programs that can be used for reading only, each with the options that keep it so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ..lists import words
from ..shell.words import Part, Word
from .finding import find_reads
from .gitreads import git_reads
from .options import names
from .readonly import Reads
from .scripts import awk_only_reads, jq_only_reads, sed_only_reads


@dataclass(frozen=True, slots=True)
class Spec:
    """How one program is called when it only reads."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    """Options with a value that is no file."""
    files: frozenset[str] = frozenset()
    """Options whose value is a file it reads."""
    operands: Literal["files", "text", "none"] = "files"
    most: int | None = None
    """How many operands at most: one more would be a file it writes."""
    digits: bool = False
    pattern: bool = False
    """Whether the first operand is a pattern or a program text, unless one of `patterns` gives it."""
    patterns: frozenset[str] = frozenset()
    script: Callable[[str], bool] | None = None
    """Whether that text only reads."""
    recursive: frozenset[str] = frozenset()
    """Options that make it read everything below a folder."""
    trees: bool = False
    """Whether it always does."""
    speaks: bool = False
    """Whether it does nothing but print its arguments."""
    own_way: Callable[[tuple[Word, ...]], Reads | None] | None = None


def _spec(flags: str = "", valued: str = "", **more: object) -> Spec:
    for key in ("files", "patterns", "recursive"):
        if isinstance(text := more.get(key), str):
            more[key] = names(text)
    return Spec(names(flags), names(valued), **more)  # pyright: ignore[reportArgumentType]


def _test_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`test` and `[`: everything but the operators that calculate a variable's name."""
    words = [word.text for word in arguments]
    operators = {"-v", "-R", "-o", "-a"}
    return None if None in words or operators & set(words) else Reads()


def _cd_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`cd`, but not back to where nobody knows; without a folder it leads home."""
    folders = [word for word in arguments if word.text not in ("-L", "-P", "-e", "--")]
    if any((word.text or "").startswith(("-", "+")) for word in folders) or len(folders) > 1:
        return None
    return Reads(tuple(folders) or (Word("~", (Part("text", "~"),)),))


def _ps_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`ps`, but only the processes at hand: others' command lines and environments may hold secrets."""
    return Reads() if all(word.text in ("-f", "-l", "--forest") for word in arguments) else None


def _date_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`date`, but not where it sets the clock."""
    words = [word.text or "?" for word in arguments]
    fine = ("-u", "--utc", "-I", "-R", "-Iseconds", "-Is", "-Idate", "--iso-8601", "--rfc-email")
    return Reads() if all(word.startswith("+") or word in fine for word in words) else None


def _tar_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`tar`, listing only."""
    first = arguments[0].text if arguments else None
    listing = first is not None and set(first.lstrip("-")) <= set("tvfzjJ") and {"t", "f"} <= set(first)
    rest = arguments[1:]
    if not listing or not (first or "").endswith("f") or any((w.text or "-").startswith("-") for w in rest):
        return None
    return Reads(rest[:1], mentions=rest[1:])


def _command_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """`command -v`: where is it?"""
    words = [word.text for word in arguments]
    return Reads() if words and words[0] in ("-v", "-V") and None not in words else None


_SUMS: Final = _spec("-b -t -z --binary --text --tag --zero")
_GREP: Final = _spec(
    "-EFGPivwxcLlqsbHhnTZzoaIrRUu --extended-regexp --fixed-strings --perl-regexp --ignore-case --invert-match "
    "--word-regexp --line-regexp --count --files-with-matches --files-without-match --quiet --no-messages --with-filename "
    "--no-filename --line-number --only-matching --text --recursive --null --color --colour",
    "-e -m -A -B -C -d -D --regexp --max-count --after-context --before-context --context --include --exclude --exclude-dir "
    "--color --colour --binary-files --label",
    files="-f --file",
    pattern=True,
    patterns="-e -f --regexp --file",
    recursive="-r -R --recursive --dereference-recursive -d",
    digits=True,
)

SPECS: Final[dict[str, Spec]] = {
    "cat": _spec("-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank"),
    "tac": _spec("-b -r", "-s"),
    "head": _spec("-qvz --quiet --verbose --zero-terminated", "-n -c --lines --bytes", digits=True),
    "tail": _spec("-fFqvzr --follow --quiet --verbose --retry", "-n -c -s --lines --bytes --pid", digits=True),
    "wc": _spec("-clLmw --lines --words --chars --bytes --max-line-length"),
    "nl": _spec("-p", "-b -d -f -h -i -l -n -s -v -w"),
    "rev": _spec(),
    "fold": _spec("-b -s", "-w"),
    "fmt": _spec("-c -s -t -u", "-w -p -g", digits=True),
    "expand": _spec("-i", "-t"),
    "unexpand": _spec("-a", "-t"),
    "cut": _spec("-n -s -z --complement --only-delimited", "-b -c -d -f --fields --delimiter --characters --output-delimiter"),
    "paste": _spec("-s -z", "-d"),
    "join": _spec("-i -z", "-a -e -j -o -t -v -1 -2"),
    "comm": _spec("-z -1 -2 -3 --check-order --nocheck-order --total", "--output-delimiter"),
    "uniq": _spec("-cdDiuz --count --repeated --unique --ignore-case", "-f -s -w", most=1),
    "sort": _spec(
        "-bdfghiMnRrVcCmsuz --numeric-sort --reverse --unique --human-numeric-sort --version-sort --ignore-case --stable",
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
        "-ubwBiqsrNayEZt --brief --unified --ignore-case --ignore-all-space --ignore-blank-lines --report-identical-files "
        "--new-file --text --side-by-side --recursive --color --context --suppress-common-lines --strip-trailing-cr",
        "-U -C -x -W --unified --context --exclude --color --label --width",
        recursive="-r --recursive",
    ),
    "cmp": _spec("-b -l -s", "-n -i"),
    "strings": _spec("-a -f", "-n -t -e", digits=True),
    "od": _spec("-abcdfiloshxv", "-A -j -N -t"),
    "hexdump": _spec("-bcCdovx", "-n -s"),
    "xxd": _spec("-b -e -i -p -u", "-c -l -s -g -o", most=1),
    "base64": _spec("-d -i --decode", "-w --wrap"),
    "md5sum": _SUMS, "sha1sum": _SUMS, "sha256sum": _SUMS, "sha512sum": _SUMS, "b2sum": _SUMS, "cksum": _spec(),
    "ls": _spec(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 --all --almost-all --directory --human-readable --recursive --reverse --size "
        "--classify --group-directories-first --no-group --full-time --color --inode --numeric-uid-gid",
        "-I -w -T --ignore --sort --time --time-style --format --color --indicator-style --hide",
    ),
    "tree": _spec("-adfxpsughDFqNQArtcUvinCS --dirsfirst --noreport --prune --gitignore", "-L -P -I --filelimit --charset"),
    "du": _spec("-abchkmPsSx0 --all --human-readable --summarize --total --apparent-size", "-d -t --max-depth --exclude"),
    "df": _spec("-ahHiklPT --human-readable --total"),
    "pwd": _spec("-L -P", operands="none"),
    "cd": Spec(own_way=_cd_reads),
    "pushd": Spec(own_way=_cd_reads),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP,
    "rg": _spec(
        "-inFPSswxvcloqNHIUap0 --ignore-case --smart-case --case-sensitive --line-number --no-line-number --fixed-strings --pcre2 "
        "--word-regexp --line-regexp --invert-match --count --count-matches --files-with-matches --files-without-match "
        "--only-matching --quiet --no-heading --heading --no-filename --with-filename --files --json --vimgrep --multiline "
        "--trim --stats --hidden --no-ignore --no-messages --column --null -u",
        "-e -g -t -T -A -B -C -m -M -d -E -r -j --regexp --glob --iglob --type --type-not --after-context --before-context "
        "--context --max-count --max-columns --max-depth --max-filesize --color --colors --sort --sortr --encoding --threads",
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
        script=sed_only_reads,
    ),
    **dict.fromkeys(("awk", "gawk", "mawk"), _spec("", "-F -v --field-separator", pattern=True, script=awk_only_reads)),
    "jq": _spec(
        "-rcSesnMCaj --raw-output --compact-output --sort-keys --exit-status --slurp --null-input --raw-input -R "
        "--monochrome-output --color-output --join-output --ascii-output --tab",
        "--indent",
        pattern=True,
        script=jq_only_reads,
    ),
    "find": Spec(own_way=find_reads),
    "git": Spec(own_way=git_reads),
    "ps": Spec(own_way=_ps_reads),
    "date": Spec(own_way=_date_reads),
    "tar": Spec(own_way=_tar_reads),
    "test": Spec(own_way=_test_reads),
    "[": Spec(own_way=_test_reads),
    "command": Spec(own_way=_command_reads),
    "echo": Spec(speaks=True),
    "printf": Spec(speaks=True),
    ":": Spec(speaks=True),
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

_ASKED_BY_OPTION: Final = words(
    """
    git node npm npx yarn pnpm bun deno tsc ruff mypy pyright pytest black rustc rustup make cmake ninja
    gcc g++ clang ruby gem bundle perl php composer docker podman kubectl helm terraform jq rg fd bash
    uv poetry pre-commit
    """
)
VERSIONED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_ASKED_BY_OPTION, ("--version",)),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "cargo"), ("--version", "-V")),
    "go": ("version",),
    "java": ("-version", "--version"),
}
"""Programs that may be asked for their version, and how."""
