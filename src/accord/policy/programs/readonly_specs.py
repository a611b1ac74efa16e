"""The table of read-only programs with their safe options: coreutils, find, sed, git.

Imported on first use.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from accord.policy.programs.program_options import ParsedArguments, option_names, parse_arguments
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


# git. These options are missing on purpose: those that write a file (`--output`), run a program
# (`--ext-diff`, `-O`, `--exec`), use the network, print addresses (which may hold logins), or set
# configuration (`-c`).

GIT_GLOBAL_FLAGS: Final = option_names(
    "-P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --icase-pathspecs"
)
GIT_GLOBAL_VALUED: Final = option_names("-C")

_DIFF_FLAGS: Final = option_names(
    """
    -pusbwaRzWMCDrtcm --patch --no-patch --stat --numstat --shortstat --dirstat --summary --name-only
    --name-status --raw --cached --staged --merge-base --check --quiet --exit-code --minimal --patience
    --histogram --no-renames --no-indent-heuristic --find-renames --find-copies --find-copies-harder
    --word-diff --color-words --color --no-color --color-moved --no-ext-diff --no-textconv --text --binary
    --full-index --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines
    --ignore-cr-at-eol --function-context --relative --no-relative --no-prefix --default-prefix --abbrev
    --pickaxe-all --pickaxe-regex --submodule --ignore-submodules --cc --irreversible-delete
    --compact-summary --cumulative
    """
)
_DIFF_VALUED: Final = option_names(
    """
    -U -S -G --unified --stat --dirstat --diff-filter --diff-algorithm --word-diff --word-diff-regex --color
    --color-words --color-moved --find-renames --find-copies --abbrev --relative --submodule
    --ignore-submodules --src-prefix --dst-prefix --inter-hunk-context --anchored --line-prefix --stat-width
    --stat-count
    """
)
_LOG_FLAGS: Final = _DIFF_FLAGS | option_names(
    """
    -iEFPgq --oneline --graph --all --branches --tags --remotes --decorate --no-decorate --merges --no-merges
    --first-parent --reverse --follow --abbrev-commit --no-abbrev-commit --relative-date --topo-order
    --date-order --author-date-order --walk-reflogs --left-right --cherry --cherry-pick --cherry-mark
    --boundary --ancestry-path --simplify-by-decoration --full-history --dense --sparse --no-walk --source
    --no-notes --show-pulls --parents --children --regexp-ignore-case --extended-regexp --fixed-strings
    --perl-regexp --invert-grep --all-match --count --objects --not --do-walk --shortstat --full-diff
    --log-size --left-only --right-only --no-mailmap --use-mailmap --clear-decorations --pretty
    """
)
_LOG_VALUED: Final = _DIFF_VALUED | option_names(
    """
    -n -L --max-count --skip --since --until --after --before --author --committer --grep --format --pretty
    --date --decorate --glob --exclude --branches --tags --remotes --decorate-refs --decorate-refs-exclude
    --encoding --min-parents --max-parents --no-walk --max-age --min-age
    """
)
_DIFF: Final = (_DIFF_FLAGS, _DIFF_VALUED)
_LOG: Final = (_LOG_FLAGS, _LOG_VALUED)

_GIT_READING: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "status": (
        option_names(
            "-s -b -v -z -u --short --branch --long --porcelain --show-stash --ahead-behind "
            "--no-ahead-behind --renames "
            "--untracked-files --ignored --ignore-submodules --column"
        ),
        option_names("--porcelain --untracked-files --ignored --ignore-submodules --column -u"),
    ),
    "log": _LOG,
    "whatchanged": _LOG,
    "show": _LOG,
    "rev-list": _LOG,
    "reflog": _LOG,
    "shortlog": (
        _LOG_FLAGS | option_names("-e -n -w --numbered --summary --email"),
        (_LOG_VALUED - {"-n"}) | option_names("-w --group"),
    ),
    "diff": _DIFF,
    "diff-tree": (_DIFF[0] | option_names("--root --no-commit-id --stdin -v"), _DIFF[1]),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "range-diff": _DIFF,
    "blame": (
        option_names(
            "-belnpfstwCM --porcelain --line-porcelain --show-name --show-number --show-email --root "
            "--show-stats -c",
        ),
        option_names("-L -S --date --since --abbrev"),
    ),
    "annotate": (option_names("-b -l -t"), option_names("-L")),
    "describe": (
        option_names("--all --tags --long --always --contains --exact-match --first-parent --dirty --abbrev"),
        option_names("--abbrev --match --exclude --candidates --dirty"),
    ),
    "rev-parse": (
        option_names(
            "--short --abbrev-ref --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir "
            "--git-common-dir --verify "
            "-q --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic "
            "--symbolic-full-name --all "
            "--branches --tags --remotes --show-superproject-working-tree --is-shallow-repository"
        ),
        option_names("--short --abbrev-ref"),
    ),
    "ls-files": (
        option_names(
            "-cdmoikstuvzf --cached --deleted --modified --others --ignored --stage --killed --unmerged "
            "--directory --full-name "
            "--exclude-standard --error-unmatch --eol --deduplicate --no-empty-directory --abbrev"
        ),
        option_names("-x --exclude --format --abbrev"),
    ),
    "ls-tree": (
        option_names("-drtlz --long --name-only --name-status --full-name --full-tree --abbrev"),
        option_names("--format --abbrev"),
    ),
    "cat-file": (option_names("-t -s -e -p"), option_names("")),
    "for-each-ref": (
        option_names("--ignore-case"),
        option_names("--count --sort --format --points-at --merged --no-merged --contains --no-contains"),
    ),
    "show-ref": (
        option_names("-dqs --head --heads --tags --branches --verify --quiet --hash"),
        option_names("--hash --abbrev"),
    ),
    "merge-base": (
        option_names("-a --all --octopus --is-ancestor --fork-point --independent"),
        option_names(""),
    ),
    "name-rev": (
        option_names("--tags --all --name-only --always --no-undefined"),
        option_names("--refs --exclude"),
    ),
    "count-objects": (option_names("-v -H --verbose --human-readable"), option_names("")),
    "check-ignore": (
        option_names("-q -v -n -z --quiet --verbose --non-matching --no-index"),
        option_names(""),
    ),
    "check-attr": (option_names("-a -z --all --cached"), option_names("")),
    "cherry": (option_names("-v --abbrev"), option_names("--abbrev")),
    "grep": (
        option_names(
            "-aIivwnlLcoqEFGPhHWpz --text --ignore-case --word-regexp --invert-match --line-number "
            "--files-with-matches "
            "--name-only --files-without-match --count --only-matching --quiet --cached --extended-regexp "
            "--fixed-strings "
            "--perl-regexp --color --heading --break --full-name --column --show-function "
            "--function-context --all-match --and --or --not"
        ),
        option_names(
            "-e -A -B -C -m --max-depth --threads --after-context --before-context --context --max-count "
            "--color",
        ),
    ),
    "version": (option_names("--build-options"), option_names("")),
}  # fmt: skip
_GIT_LISTING: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "branch": (
        option_names(
            "-a -r -v -l -i --all --remotes --list --show-current --verbose --no-color --color "
            "--ignore-case --abbrev --column"
        ),
        option_names(
            "--contains --no-contains --merged --no-merged --points-at --sort --format --abbrev --column"
        ),
    ),
    "tag": (
        option_names("-l -i -n --list --ignore-case --column"),
        option_names("-n --contains --no-contains --merged --no-merged --points-at --sort --format --column"),
    ),
}


def _git_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """Return the files, revisions and folders that `git` reads; None if it may do more."""
    outer = parse_arguments(arguments, GIT_GLOBAL_FLAGS, GIT_GLOBAL_VALUED, first_operand_ends=True)
    if outer is None or not outer.operands:
        return None
    subcommand, *rest = outer.operands
    folders = tuple(outer.values("-C"))
    mentions = _git_mentions(subcommand.text or "", tuple(rest))
    return None if mentions is None else ReadOnlyUse((*folders, *mentions), mentions=mentions)


def _git_mentions(subcommand: str, rest: tuple[Word, ...]) -> tuple[Word, ...] | None:
    if subcommand in _GIT_READING:
        flags, valued = _GIT_READING[subcommand]
        parsed = parse_arguments(rest, flags, valued, digits=True)
        if subcommand == "reflog" and parsed and parsed.operands and parsed.operands[0].text != "show":
            return None  # expire, delete
        return None if parsed is None else (*parsed.operands, *_ranges(parsed))
    if subcommand in _GIT_LISTING:
        flags, valued = _GIT_LISTING[subcommand]
        parsed = parse_arguments(rest, flags, valued)
        if parsed is None or (parsed.operands and not parsed.has("-l", "--list")):
            return None
        return ()
    words = [word.text for word in rest]
    if None in words:
        return None
    return () if (subcommand, *words) in _GIT_EXACT or _shows_symbolic_ref(subcommand, words) else None


_GIT_EXACT: Final = frozenset(
    tuple(line.split())
    for line in (
        "remote", "stash list", "stash show", "stash show -p", "worktree list",
        "worktree list --porcelain", "submodule status", "submodule", "config user.name", "config user.email",
        "config --get user.name", "config --get user.email", "config --get init.defaultBranch",
    )
)  # fmt: skip


def _shows_symbolic_ref(subcommand: str, words: list[str | None]) -> bool:
    """`symbolic-ref NAME` prints; with a second argument it sets."""
    return subcommand == "symbolic-ref" and len(words) == 1 and not (words[0] or "-").startswith("-")


def _ranges(parsed: ParsedArguments) -> list[Word]:
    """`-L 1,5:file`: the file behind the range."""
    return parsed.values("-L")


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
    "git": ReadOnlySpec(parse=_git_use),
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
