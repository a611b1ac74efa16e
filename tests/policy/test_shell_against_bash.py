"""Compares the shell parser with real bash: the parser must predict every command that bash runs.

Lines that the parser accepts (parsed, no doubts, every program certain) run in bash with stub programs that
record their calls. A call that the parser did not predict is a hole in the policy.
"""

import random
import shutil

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from tests.policy.bash_recorder import STUBS, BashRecorder
from tests.policy.shell_line_strategies import composed, damaged, random_fragments
from tests.repetitions import repetitions

from accord.policy.programs.executed_commands import ExecutedCommands, executed_commands
from accord.policy.shell.command_line import parse_line
from accord.policy.shell.syntax import SimpleCommand

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> BashRecorder:
    return BashRecorder(tmp_path_factory.mktemp("recorder"))


def predicted(line: str) -> ExecutedCommands | None:
    """Return the predicted commands, or None if the parser has doubts about the line."""
    found = executed_commands(parse_line(line))
    certain = found.parsed and not found.doubts and all(command.program for command in found.commands)
    return found if certain else None


def was_predicted(call: list[str], commands: list[SimpleCommand]) -> bool:
    for command in commands:
        texts = [word.text for word in command.words]
        if texts == call or (texts and texts[0] == call[0] and None in texts):
            return True
    return False


def check(recorder: BashRecorder, line: str) -> None:
    assume("/" not in line and ".." not in line)
    found = predicted(line)
    event("predicted" if found else "doubted")
    if found is None:
        return
    for call in recorder.run(line):
        assert was_predicted(call, found.commands), (
            f"bash ran {call}, which the parser did not predict for {line!r}"
        )


RUN = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    max_examples=repetitions(120),
)


@RUN
@given(line=composed())
def test_the_parser_predicts_what_bash_runs(recorder: BashRecorder, line: str):
    check(recorder, line)


@RUN
@given(line=damaged())
def test_the_parser_predicts_what_bash_runs_for_damaged_lines(recorder: BashRecorder, line: str):
    check(recorder, line)


@settings(RUN, max_examples=repetitions(400))
@given(line=random_fragments)
def test_the_parser_predicts_what_bash_runs_for_random_fragments(recorder: BashRecorder, line: str):
    check(recorder, line)


LINES = [
    "ok1", "ok1 a 'b c' d\\ e", "ok1 | ok2 | no1", "ok1 && ok2 || no1", "no1 && ok1; ok2 & wait",
    "(ok1; (ok2))", "{ ok1; ok2; }", "ok1 $(ok2 $(say))", "ok1 `ok2`", "ok1 \"$(ok2 \"$(say 'x y')\")\"",
    "A=$(ok1) ok2", "A=`ok1`", "ok1 <(ok2) >(say)", "ok1 <<E\n$(ok2) \\$(no1)\nE\n",
    "ok1 <<'E'\n$(ok2)\nE\nsay", "ok1 <<-E | ok2\n\ttext\n\tE\n", "ok1 <<< $(ok2)",
    "if no1; then ok1; elif ok2; then say; fi", "for i in a b; do ok1; done", "until ok1; do no1; done",
    "case a in b) no1;; a) ok1;; esac", "! ok1", "time ok1", "[[ a == a ]] && ok1", "[ a ] && ok1",
    ">o ok1 a >>o b", "ok1 2>&1 >o", "ok1;ok2;say", "ok1\nok2\n\n say", "ok1 # ok2\nsay", "ok1 a#ok2",
    "ok1 \\\n a", "ok1 $'a\\nb' $'\\x41'", "o'k'1 a\"b\"'c'\\d", "\\ok1", "ok1 '' \"\"", "env ok1 a",
    "env A=1 B=2 ok1", "nohup ok1", "timeout 9 ok1 a", "nice -n 2 ok1", "command ok1", "exec ok1 a",
    "eval 'ok1; ok2'", "eval ok1 a", "bash -c 'ok1 a; ok2'", "sh -c 'ok1' x", "bash -euc 'ok1'",
    "bash -c \"bash -c 'ok1 a'\"", "say | xargs ok1", "say | xargs -n 1 -I Z ok1 aZ",
    "trap 'ok1 a' EXIT; ok2", "A=x; ok1 $A", "export B=1; ok1", "set -e; ok1; no1; ok2", "ok1 *", "ok1 {a,b}",
    "while false; do no1; done; ok1", "ok1 >&-a", "ok1 2&>o", "ok1 >& -a b", "ok1 & ok2 & wait", "ok1 |& ok2",
    "ok1 >&o", "ok1 >&'o'", "ok1 2>&1 >&o.log", "ok1 >&'2'", "ok1 2>&1-", "ok1 &>'$(no1)'", "ok1 >'$(no1)'",
    "ok1 a=b -c=d", "ok1 é 'ü'", "ok1 \"a\nb\"", "read -r L < o; ok1", "unset A; ok1", "nohup env nice ok1",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_parser_predicts_what_bash_runs_for_common_lines(recorder: BashRecorder, line: str):
    found = predicted(line)
    assert found is not None, executed_commands(parse_line(line)).doubts
    calls = recorder.run(line)
    assert calls
    assert [call for call in calls if not was_predicted(call, found.commands)] == []


DOUBTED = [
    "$A", "o$A", "$(say) a", "`say`", "o{k1,k2}", "ok*", "[o]k1", "ok1() { no1; }; ok1",
    "function ok1 { no1; }; ok1", "bash -c \"$A\"", "eval $A", "bash", "say | bash", "bash <<E\nok1\nE",
    "ok1\\\na", "o\\\nk1", "ok1 \"$\\\n(no1)\"", "ok1 $((a[$(no1)]))", "A[$(no1)]=1", "${A:-$(no1)}",
    "ok1 ${A/x/$(no1)}", "ok1 ${A@P}", "((A[$(no1)]))", "[[ a -eq A[$(no1)] ]]", "[[ -v A[$(no1)] ]]",
    "coproc ok1", "ok1 `a \\`no1\\``", "alias ok1=no1", "shopt -s expand_aliases", "source o", ". o",
    "PATH=x ok1", "export PATH=x", "env PATH=x ok1", "read PATH", "ok1 'x", "declare -i A=1", "let A=1",
    "ok1 <<E\nx", "ok1 \0", "printf -v PATH x", "xargs -I Z Z", "find o -exec $A", "hash -p x ok1",
    "enable -n echo", "trap $A EXIT", "set -- a; $1", "exec -a x $A", "env $A ok1", "timeout $A ok1",
    "env -S 'ok1 a'", "IFS=x; ok1", "for PATH in x; do ok1; done",
]  # fmt: skip


@pytest.mark.parametrize("line", DOUBTED)
def test_lines_that_cannot_be_predicted_are_doubted(line: str):
    assert predicted(line) is None


EXPANDED_TWICE = [
    ">&o'$(ok1)'", ">&'$(ok1)'", '>&"\\$(ok1)"', ">&o\\$\\(ok1\\)",
    "1>&o'$(ok1)'", ">&o'`ok1`'", ">&'<(ok1)'",
    ">& 'o$(ok1)'", "A='$(ok1)'; >&$A", "A='$(ok1)'; >&o\"$A\"", "A='$(ok1)'; >&${A}", ">&o'$((A[$(ok1)]))'",
    "say >&o$(printf '$(ok1)')", "ok2() { ok1; }; >&'$(ok2)'", "{ say; } >&o'$(ok1)'",
]  # fmt: skip


@pytest.mark.parametrize("line", EXPANDED_TWICE)
def test_a_redirection_to_a_word_that_bash_expands_twice_is_doubted(recorder: BashRecorder, line: str):
    assert ["ok1"] in recorder.run(line), "bash no longer expands this word twice"
    assert predicted(line) is None


@pytest.mark.parametrize(
    "line", [">&'~'", ">&'a*'", ">&'o{1,2}'", ">&'a\"b'", ">&o\\\\a", ">&''", "<&'$(ok1)'"]
)
def test_a_redirection_to_a_word_that_may_change_when_expanded_again_is_doubted(line: str):
    assert predicted(line) is None


def test_a_quoted_descriptor_with_a_minus_is_the_name_of_a_file():
    (command,) = parse_line("ok1 >&'1-'").commands
    assert [redirect.target.text for redirect in command.redirects] == ["1-"]


def test_most_common_lines_are_accepted():
    drawn = random.Random(7)
    accepted = 0
    lines = [common_line(drawn) for _ in range(400)]
    accepted = sum(predicted(line) is not None for line in lines)
    assert accepted > 320, accepted


def common_line(drawn: random.Random) -> str:
    """Return a common line: a few commands, some joined, some nested."""
    names = list(STUBS)

    def simple() -> str:
        return " ".join(
            [
                drawn.choice(names),
                *drawn.choices(
                    ["a", "-b", "'c d'", '"$A"', "x=y", "*.o", "2>&1", ">o"], k=drawn.randint(0, 3)
                ),
            ]
        )

    line = simple()
    for _ in range(drawn.randint(0, 3)):
        form = drawn.choice(
            [
                "{} && {}",
                "{} | {}",
                "{}; {}",
                "({}) || {}",
                "{} $({})",
                "if {}; then {}; fi",
                "for i in a; do {}; {}; done",
            ]
        )
        line = form.format(line, simple())
    return line


@given(text=st.text(max_size=60))
@settings(deadline=None, max_examples=repetitions(300))
def test_any_text_is_parsed_without_an_exception(text: str):
    found = executed_commands(parse_line(text))
    assert isinstance(found.parsed, bool)
