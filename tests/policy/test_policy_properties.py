"""Properties of any request, rule set, mode and command line: only covered requests are allowed."""

import re
import shlex
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.policy.project import Project, always, rules
from tests.policy.shell_line_strategies import composed, damaged, random_fragments
from tests.repetitions import repetitions

from accord.policy import MODES, Policy
from accord.policy.request import STRICTNESS
from accord.policy.rules import KINDS

RUN = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    max_examples=repetitions(150),
)

# Each of these is allowed in the tests below, as a read-only command, by a grant or by a rule.
COVERED = [
    "ls",
    "git status",
    "cat a.py",
    "npm test",
    "npm test -- x",
    "make build",
    "make build -j4",
    "echo 'a b'",
    "true",
]
# Commands that are not covered, in many forms.
UNCOVERED = [
    "rm x", "npm publish", "make deploy", "foo", "./npm test", "sudo ls", "git push", "cat ../x", "cat .env",
    "touch ~/x", "$X", "PATH=. ls", "ls > out", "python -c 1", "sort -o x a.py", "find . -name x -delete",
    "git log --output=x", "curl example.com", "bash run.sh", "env", "bash -c 'rm x'", "eval 'rm x'",
    "xargs rm", "command rm x", "r''m x", "\\rm x", "timeout 5 rm x", "echo $SECRET", "f() { ls; }",
    "source x",
]  # fmt: skip
PLACES = [
    "{0}; {1}", "{1}; {0}", "{0} && {1}", "{0} || {1}", "{1} && {0}", "{0} | {1}", "{1} | {0}", "{0} & {1}",
    "{0}\n{1}", "({0}; {1})", "{{ {1}; }}", "{0} $({1})", '{0} "$({1})"', "{0} `{1}`", "{0} <({1})",
    "if {0}; then {1}; fi", "if {1}; then {0}; fi", "while {1}; do {0}; done", "for i in a; do {1}; done",
    "for i in $({1}); do {0}; done", "case a in a) {1};; esac", "! {1}", "A=$({1})", "A=$({1}) {0}",
    "cat <<{3}\n$({1})\n{3}\n{0}", "{0} >$({1})", "[[ $({1}) == a ]] && {0}", "echo \"a $({1}) b\" | {0}",
    "{0} # comment\n{1}",
]  # fmt: skip


@st.composite
def with_one_uncovered(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(UNCOVERED))
    for depth in range(draw(st.integers(1, 4))):
        places = [place for place in PLACES if "`" not in place or "`" not in line]
        place = draw(st.sampled_from([*places, "bash -c {2}", "sh -ec {2}", "eval {2}"]))
        line = place.format(draw(st.sampled_from(COVERED)), line, shlex.quote(line), f"E{depth}")
    return line


@st.composite
def all_covered(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(COVERED))
    plain = [place for place in PLACES if not re.search(r"[`$<>!]", place)]
    for _ in range(draw(st.integers(0, 3))):
        line = draw(st.sampled_from(plain)).format(draw(st.sampled_from(COVERED)), line)
    return line


@settings(RUN, max_examples=repetitions(400))
@given(line=with_one_uncovered())
def test_one_uncovered_command_makes_the_line_ask(project: Project, line: str):
    grants = always(project, "npm test")
    decision = project.decide(project.run(line, grants=grants), {"allow": [{"command": "make build *"}]})
    assert decision.effect != "allow", line


@given(line=all_covered())
@settings(RUN)
def test_a_line_of_covered_commands_is_allowed(project: Project, line: str):
    grants = always(project, "npm test")
    decision = project.decide(project.run(line, grants=grants), {"allow": [{"command": "make build *"}]})
    assert decision.effect == "allow", (line, decision)


@given(line=composed() | damaged() | random_fragments)
@settings(RUN)
def test_lines_with_unknown_programs_are_never_allowed(project: Project, line: str):
    # These lines contain no program that runs without a question, or they run nothing.
    decision = project.decide(project.run(line))
    if decision.effect == "allow":
        from accord.policy.programs.executed_commands import executed_commands
        from accord.policy.shell.command_line import parse_line

        found = executed_commands(parse_line(line))
        assert found.parsed
        assert not found.doubts
        assert not [command for command in found.commands if command.name in ("ok1", "ok2", "no1", "say")]


_pattern = st.sampled_from(
    ["src/**", "*.py", "a.py", "docs", "/**", "~/**", ".env", "**", "/etc/*", "build/x"]
)
_command = st.sampled_from(
    ["npm *", "npm test", "git commit *", "rm *", "ls *", "cat *", "sudo *", "git push * --force"]
)
_rule = st.one_of(
    st.sampled_from(KINDS),
    st.fixed_dictionaries({"path": _pattern}, optional={"kind": st.sampled_from(KINDS)}),
    st.fixed_dictionaries({"command": _command}),
    st.fixed_dictionaries({"tool": st.sampled_from(["*", "bash", "edit_file", "mcp__*", "read_*"])}),
    st.fixed_dictionaries({"host": st.sampled_from(["*", "example.com", "*.example.com"])}),
)
_rules = st.fixed_dictionaries(
    {},
    optional={
        "allow": st.lists(_rule, max_size=3),
        "ask": st.lists(_rule, max_size=2),
        "deny": st.lists(_rule, max_size=2),
        "default": st.sampled_from(["ask", "reads", "all", "none", "allow", "deny"]),
    },
)
_lines = st.sampled_from(
    [
        *COVERED,
        *UNCOVERED,
        "git commit -m x && npm test",
        "cat src/main.py > docs/x",
        "ls 'x",
        "cat /etc/hosts",
        "sudo npm test",
    ]
)
_paths = st.sampled_from(
    [
        "a.py",
        "src/main.py",
        "docs/new.md",
        ".env",
        "/etc/hosts",
        "~/notes/todo.md",
        "../elsewhere/other.txt",
        "leads_out/x",
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    common: dict[str, Any] = {"mode": draw(st.sampled_from([*MODES, None])), "sandboxed": draw(st.booleans())}
    match draw(st.sampled_from(["run", "read", "edit", "delete", "fetch", "mcp", "unknown"])):
        case "run":
            return common | {
                "tool": "bash",
                "category": "execute",
                "kind": "execute",
                "command": draw(_lines),
            }
        case "read":
            return common | {
                "tool": "read_file",
                "category": "read-only",
                "kind": "read",
                "paths": (draw(_paths),),
            }
        case "edit":
            return common | {
                "tool": "edit_file",
                "category": "write",
                "kind": "edit",
                "paths": (draw(_paths), draw(_paths)),
            }
        case "delete":
            return common | {
                "tool": "delete_file",
                "category": "write",
                "kind": "delete",
                "paths": (draw(_paths),),
            }
        case "fetch":
            url = draw(
                st.sampled_from(
                    ["https://example.com/x", "https://a.example.com", "https://evil.org", "no url"]
                )
            )
            return common | {"tool": "web_fetch", "category": "read-only", "kind": "fetch", "url": url}
        case "mcp":
            return common | {
                "tool": "mcp__x",
                "category": "external",
                "kind": "other",
                "read_only": draw(st.booleans()),
            }
        case _:
            return common | {"category": draw(st.sampled_from(["external", "execute", "write"]))}


@settings(RUN, max_examples=repetitions(400))
@given(request=requests(), user=_rules, own=_rules)
def test_project_rules_never_widen_permissions(
    project: Project, request: dict[str, Any], user: Any, own: Any
):
    action_request = project.request(**request)
    alone = Policy(rules(user)).decide(action_request).effect
    together = Policy(rules(user), rules(own)).decide(action_request).effect
    assert STRICTNESS[together] >= STRICTNESS[alone]


@settings(RUN, max_examples=repetitions(300))
@given(request=requests(), user=_rules, more=_rule)
def test_additional_deny_and_ask_rules_never_widen_permissions(
    project: Project, request: dict[str, Any], user: Any, more: Any
):
    action_request = project.request(**request)
    before = STRICTNESS[Policy(rules(user)).decide(action_request).effect]
    for effect in ("deny", "ask"):
        if effect == "ask" and rules(user).permission_default == "none":
            continue  # an ask rule takes precedence over the default
        stricter = user | {effect: [*user.get(effect, []), more]}
        assert STRICTNESS[Policy(rules(stricter)).decide(action_request).effect] >= before


@settings(RUN, max_examples=repetitions(300))
@given(request=requests(), user=_rules)
def test_denying_every_kind_and_tool_allows_nothing(project: Project, request: dict[str, Any], user: Any):
    action_request = project.request(**request)
    everything = user | {"deny": [*user.get("deny", []), *KINDS, {"tool": "*"}]}
    effect = Policy(rules(everything)).decide(action_request).effect
    assert effect == "deny" or (effect == "ask" and not action_request.kind and not action_request.tool)


@settings(RUN, max_examples=repetitions(200))
@given(request=requests(), user=_rules)
def test_only_full_access_or_a_path_rule_allows_paths_outside(
    project: Project, request: dict[str, Any], user: Any
):
    action_request = project.request(**request)
    paths = [action_request.directories.resolve(path) for path in action_request.paths]
    assume(any(place and not action_request.directories.is_inside(place.real) for place in paths))
    assume(
        action_request.mode != "full-access"
        and not any("path" in rule for rule in user.get("allow", []) if isinstance(rule, dict))
    )
    assert Policy(rules(user)).decide(action_request).effect != "allow"


@settings(RUN, max_examples=repetitions(200))
@given(
    user=_rules,
    own=_rules,
    mode=st.sampled_from([*MODES, None]),
    line=st.sampled_from(
        ["rm -rf /", "ls; rm -rf ~", "echo $(dd of=/dev/sda)", "bash -c 'rm -rf /'", ":(){ :|:& };:"]
    ),
)
def test_never_allowed_commands_are_denied_under_any_rules(
    project: Project, user: Any, own: Any, mode: Any, line: str
):
    action_request = project.run(line, mode=mode, sandboxed=True, grants=always(project, "npm test"))
    assert Policy(rules(user), rules(own)).decide(action_request).rule == "floor"


@settings(RUN, max_examples=repetitions(200))
@given(
    user=_rules,
    mode=st.sampled_from([*MODES, None]),
    line=st.sampled_from(COVERED).flatmap(
        lambda line: st.sampled_from(
            [f"{line} 'x", f"{line} $(", f"{line}; if", f"{line}\0", f"({line}", f"{line}\u200b"]
        )
    ),
)
def test_a_line_that_does_not_parse_is_never_allowed(project: Project, user: Any, mode: Any, line: str):
    decision = Policy(rules(user)).decide(
        project.run(line, mode=mode, sandboxed=True, grants=always(project, "npm test"))
    )
    assert decision.effect != "allow"


@settings(RUN, max_examples=repetitions(300))
@given(text=st.text(max_size=80), mode=st.sampled_from([*MODES, None]))
def test_any_text_gets_a_decision(project: Project, text: str, mode: Any):
    decision = project.decide(project.run(text, mode=mode))
    assert decision.effect in ("allow", "ask", "deny")
    assert "\n" not in decision.reason


@settings(RUN, max_examples=repetitions(200))
@given(
    paths=st.lists(st.text(max_size=60), max_size=3),
    url=st.none() | st.text(max_size=60),
    mode=st.sampled_from([*MODES, None]),
)
def test_any_path_and_url_gets_a_decision(project: Project, paths: list[str], url: str | None, mode: Any):
    for request in (
        project.request(category="write", kind="edit", paths=tuple(paths), mode=mode),
        project.request(category="read-only", kind="fetch", url=url, mode=mode),
    ):
        assert project.decide(request).effect in ("allow", "ask", "deny")


def test_without_rules_a_client_asks_for_every_command(project: Project):
    assert {project.verdict(line, mode=None) for line in COVERED} == {"ask"}
