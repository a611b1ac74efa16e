"""Shell lines for property tests: composed from every construct that the parser reads, damaged, or random."""

from hypothesis import strategies as st

WORDS = [
    "a", "-n", '"b c"', "'d e'", "e\\ f", '""', "$A", '"$A"', "${A}", "${A:-z}", '"x$A"', "*", "~", "{1,2}",
    "a=b", "x#y", "$", "\\$A", '"\\$A \\` \\""', "$((1+2))", "$'p\\x31'", "!", "{", "}", "then", "é",
    '"a\nb"', "'a\nb'", "a\\;b", '";"', '"&&"', "'|'", "[", "2", "-", '"(ok1)"', "$?", "${#A}", "[o]k1", "@",
    "done", "#no", '"$(ok1)"', "`ok2`", "<(ok1)", '"`ok2 b`"', "'$(ok1)'", "\\`", '"#"', "a\\\\",
]  # fmt: skip
NAMES = ["ok1", "ok2", "no1", "say", "\\ok1", '"ok2"', "o'k'1", "$'ok1'", 'say""', "o\\k1"]
REDIRECTS = [
    ">o",
    "> o",
    ">>o",
    "2>o",
    "2>&1",
    ">&2",
    "<o",
    "&>o",
    ">|o",
    "<<<ok1",
    '<<< "$(ok2)"',
    ">&o",
    ">&o'$(ok1)'",
    '>&"$A"',
    ">&-",
    "2>&-",
]
SEPARATORS = [
    "; ",
    ";",
    "\n",
    " && ",
    "&&",
    " || ",
    "||",
    " & ",
    "&",
    " ;\n",
    ' # no ok1 "\n',
    "\n# ok2\n",
    " \\\n ; ",
    " && \\\n",
]

BODIES = ["text", "$A", "$(ok2)", "\\$(ok1)", 'a "b', "'", "x\\\\", "ok1 # $(ok2 a)", "#", ""]
WRAPPERS = ["", "", "", "", "env ", "env A=1 ", "nohup ", "timeout 9 ", "nice ", "command ", "exec ", "time "]
FORMS = [
    "({0})", "{{ {0}; }}", "if {0}; then {1}; else {2}; fi", "if {0}; then {1}; elif {2}; then {0}; fi",
    "for i in a $A; do {0}; done", "while false; do {0}; done", "until true; do {0}; done",
    "case $A in a) {0};; *) {1} ;; esac", "[[ $A == a ]] || {0}", "[ a ] && {0}", "! {0}", "{0} | xargs ok1",
    "bash -c '{0}'", "sh -c '{0}' x y", "eval '{0}'", "{0} | {1} |& {2}", "trap '{0}' EXIT; {1}",
]  # fmt: skip


@st.composite
def composed(draw: st.DrawFn) -> str:
    """A valid line."""
    one = _Composer(draw)
    return one.list(draw(st.integers(0, 2)))


class _Composer:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def pick(self, choices: list[str]) -> str:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def list(self, depth: int) -> str:
        line = self.command(depth)
        while self.chance(40):
            line += self.pick(SEPARATORS) + self.command(depth)
        return line

    def command(self, depth: int) -> str:
        if depth == 0 or self.chance(45):
            return self.simple(depth)
        if self.chance(15):
            mark = self.pick([" <<E", " <<'E'", ' <<"E"', " <<-E"]) + self.pick(
                ["", " | ok2", " > o", " && ok2", " a"]
            )
            return f"{self.pick(NAMES)}{mark}\n{self.pick(BODIES)}\nE\n"
        form = self.pick(FORMS)
        inner = [self.list(depth - 1) for _ in range(3)]
        return form.format(*inner) if "'" not in form or not any("'" in line for line in inner) else inner[0]

    def simple(self, depth: int) -> str:
        words = [self.pick(["A=1", 'B="x y"', "A=", "C=$A", "A=$(ok2)", "2>o"])] if self.chance(25) else []
        words.append(self.pick(WRAPPERS) + self.pick(NAMES))
        while self.chance(55):
            words.append(self.word(depth))
        return " ".join(words)

    def word(self, depth: int) -> str:
        if depth and self.chance(30):
            return self.pick(["$({})", '"$({})"', "<({})", '"x $({}) y"']).format(self.list(depth - 1))
        word = self.pick(REDIRECTS) if self.chance(20) else self.pick(WORDS)
        return word + self.pick(WORDS) if self.chance(15) else word


_FRAGMENTS = [
    *NAMES, *WORDS, *REDIRECTS, *SEPARATORS, " ", " ", " ", " ", "(", ")", "$(", "`", '"', "'", "\\", "#",
    "<<E\n", "\nE\n", "<<'E'\n", "((", "))", "if ", "; then ", "; fi", "for i in ", "; do ", "; done",
    "case a in a) ", ";; esac", "[[ ", " ]]", "<(", ">(", "o{k1,k2}", "\\\n", '$"', "\t", "time ", "coproc ",
    "function ", "ok1()", "eval ", "exec ", "in ", "{fd}>", "<>", "|&", ";&", ";;", "@(ok1)", "$@", "=(",
    "+=", "[1]=", "A[", "$[", "1]", "${", "${!A}", "${A@P}", "set ", "export ", "declare ", "env ",
    "bash -c ", "xargs ", "trap ", "command ", "\r", "&>>", "${A/ok1/ok2}",
]  # fmt: skip
random_fragments = st.lists(st.sampled_from(_FRAGMENTS), min_size=2, max_size=12).map("".join)
"""A random sequence of fragments, mostly invalid."""


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A valid line in which a few characters were removed, inserted or moved."""
    line = draw(composed())
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(line)))
        what = draw(
            st.sampled_from([*"'\"`$(){};|&<>#\\ \n!=[]*~-", "$(", "\\\n", "ok1", "((", "<<E", "${", "$'"])
        )
        line = draw(
            st.sampled_from([line[:at] + what + line[at:], line[:at] + line[at + 1 :], line[at:] + line[:at]])
        )
    return line
