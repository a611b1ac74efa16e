"""Permission rules: their format, what they match, and which rule wins."""

from typing import Any

import pytest
from tests.policy.project import Project, always, granted, rules

from accord.policy import BadRules, read_permissions


@pytest.mark.parametrize("word", ["ask", "reads", "all", "none"])
def test_permissions_can_be_one_word(word: str):
    assert read_permissions(word).permission_default == word


def test_permissions_can_be_an_object():
    read = read_permissions(
        {
            "default": "deny",
            "allow": [
                "read",
                {"command": ["npm test *", "git commit *"]},
                {"kind": ["edit", "move"], "path": "src/**"},
            ],
            "ask": [{"tool": "mcp__*"}],
            "deny": [{"path": "secrets/**"}, {"host": "*.evil.example"}],
        },
        file="config.json",
    )
    assert read.permission_default == "none"
    assert [name for name, _ in read.rules("deny")] == [
        "deny rule 1 of config.json (path secrets/**)",
        "deny rule 2 of config.json (host *.evil.example)",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("yes", "acp.json: permissions: 'yes' is none of ask, reads, all, none"),
        (1, "acp.json: permissions: it must be one of"),
        (None, "acp.json: permissions: it must be one of"),
        ([], "acp.json: permissions: it must be one of"),
        ({"alow": []}, "acp.json: permissions: Object contains unknown field `alow`"),
        ({"source": "x"}, "acp.json: permissions.source: there is no such key"),
        ({"default": "maybe"}, "acp.json: permissions.default: 'maybe' is not one of "),
        ({"allow": "read"}, "acp.json: permissions.allow: Expected `array`"),
        ({"allow": [1]}, "acp.json: permissions.allow[0]: Expected"),
        ({"allow": ["reed"]}, "acp.json: permissions.allow[0].kind: 'reed' is no kind of tool call"),
        ({"allow": ["bash"]}, "a tool is named by `tool`"),
        ({"allow": [{}]}, "acp.json: permissions.allow[0]: a rule must name one of"),
        ({"allow": [{"paths": "x"}]}, "unknown field `paths`"),
        ({"deny": ["read", {"path": ""}]}, "acp.json: permissions.deny[1].path: it is empty"),
        ({"allow": [{"kind": "edit", "path": []}]}, "acp.json: permissions.allow[0].path: it is empty"),
        ({"allow": [{"kind": "edit", "path": None}]}, "acp.json: permissions.allow[0].path"),
        ({"allow": [{"path": " src"}]}, "blanks around it"),
        ({"allow": [{"path": "src/../.."}]}, "no `..`"),
        ({"allow": [{"path": "!src"}]}, "no `!`"),
        ({"allow": [{"path": "~bob/x"}]}, "`~` only as"),
        ({"allow": [{"command": "*"}]}, "would allow any program"),
        ({"allow": [{"command": "n* test"}]}, "would allow any program"),
        ({"allow": [{"command": "npm test && ls"}]}, "more than one command"),
        ({"allow": [{"host": "https://example.com"}]}, "is no host"),
        ({"allow": [{"host": "ex*mple.com"}]}, "is no host"),
        ({"allow": [{"tool": "a\nb"}]}, "control characters"),
    ],
)
def test_invalid_rules_are_refused_with_file_key_and_reason(value: Any, message: str):
    with pytest.raises(BadRules) as caught:
        read_permissions(value, file="acp.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


PATHS = [
    ("src", "src/main.py", True),
    ("src/", "src/deep/x.py", True),
    ("src/**", "src/deep/x.py", True),
    ("src/**", "src", False),
    ("src/*", "src/main.py", True),
    ("src/*.py", "src/deep/x.py", False),
    ("src/**/*.py", "src/deep/x.py", True),
    ("src/**/*.py", "src/main.py", True),
    ("**/deep", "src/deep/x.py", True),
    ("*.py", "a.py", True),
    ("*.py", "src/deep/x.py", True),
    ("./*.py", "src/main.py", False),
    ("./a.py", "a.py", True),
    ("deep", "src/deep/x.py", True),
    ("docs/guide.md", "docs/guide.md", True),
    ("docs/guide.md", "src/docs/guide.md", False),
    ("?.py", "a.py", True),
    ("[ab].py", "b.py", True),
    ("[!ab].py", "b.py", False),
    ("a.p", "a.py", False),
    ("a\\.py", "a.py", True),
    ("\\*.py", "a.py", False),
    ("[^ab].py", "b.py", False),
    ("[b-a].py", "b.py", False),
    ("src/**.py", "src/deep/x.py", True),
    ("src/d**y", "src/deep/x.py", True),
    ("sr**/x.py", "src/deep/x.py", True),
    (".", "a.py", False),
    ("with space", "with space/x", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATHS)
def test_path_patterns_match(project: Project, pattern: str, path: str, matches: bool):
    allowed = project.decide(project.edit(path), {"allow": [{"path": pattern}]}).effect
    assert allowed == ("allow" if matches else "ask")
    denied = project.decide(project.edit(path), {"deny": [{"path": pattern}]}).effect
    assert denied == ("deny" if matches else "ask")


def test_patterns_for_outside_paths_must_be_absolute(project: Project):
    other = project.elsewhere / "other.txt"
    for pattern in (f"{project.elsewhere}/**", str(other), "/**"):
        assert project.decide(project.read(other), {"allow": [{"path": pattern}]}).effect == "allow"
    for pattern in ("**", "*", "other.txt"):
        assert project.decide(project.read(other), {"allow": [{"path": pattern}]}).effect == "ask"
    assert project.decide(project.read("~/notes/todo.md"), {"allow": [{"path": "~/notes"}]}).effect == "allow"
    assert project.decide(project.read("~/.ssh/id_rsa"), {"allow": [{"path": "~/**"}]}).effect == "ask"


def test_a_secret_is_allowed_only_by_a_rule_that_names_it(project: Project):
    for pattern in (".env", "/**/.env", ".env*"):
        assert project.decide(project.read(".env"), {"allow": [{"path": pattern}]}).effect == "allow", pattern
    for pattern in ("**", "*", "./**"):
        assert project.decide(project.read(".env"), {"allow": [{"path": pattern}]}).effect == "ask", pattern
    for user in ({"allow": ["read"]}, {"allow": [{"tool": "read_file"}]}, {"default": "all"}, "all"):
        assert project.decide(project.read(".env"), user).effect == "ask"


def test_a_deny_rule_applies_through_links_and_other_spellings(project: Project):
    user = {"deny": [{"path": "src/**"}]}
    for path in ("inside_link/main.py", "SRC/main.py", "docs/../src/main.py"):
        assert project.decide(project.read(path), user).effect == "deny", path
    for line in (
        "cat src/main.py",
        "cat < src/main.py",
        "cat inside_link/main.py",
        "cd src && cat main.py",
        "npm test src/x",
    ):
        assert project.verdict(line, user) == "deny", line
    assert project.verdict("rm -r src", user, mode="full-access") == "deny"
    assert project.verdict("cat src/$X", user, mode="full-access") != "allow"


COMMANDS = [
    ("npm test", "npm test", True),
    ("npm test", "npm test x", False),
    ("npm test *", "npm test", True),
    ("npm test *", "npm test a b", True),
    ("npm *", "npm install x", True),
    ("npm run b*", "npm run build", True),
    ("npm run b*", "npm run test", False),
    ("git * --amend", "git commit -a --amend", True),
    ("npm test *", "npm test && ls", True),
    ("npm test *", "npm test && foo", False),
    ("npm test *", "npm test $(foo)", False),
    ("npm test *", "npm test $X", True),
    ("npm test", "npm test $X", False),
    ("npm test *", "sudo npm test", False),
    ("npm test *", "./npm test", False),
    ("npm test *", "/usr/bin/npm test", False),
    ("npm test *", "NPM test", False),
    ("npm test *", "$X test", False),
    ("npm test *", "PATH=. npm test", False),
    ("npm test *", "npm test ../elsewhere", False),
    ("npm test *", "npm test .env", False),
    ("npm test *", "bash -c 'npm test'", True),
    ("npm test *", "npm test > out", False),
    ("npm test *", "npm test 'x", False),
    ("sudo *", "sudo ls", True),
    ("sudo *", "sudo rm x", False),
    ("python -c *", "python -c 'print(1)'", True),
    ("a?b", "'a?b'", True),
    ("a?b", "axb", False),
]


@pytest.mark.parametrize(("pattern", "line", "allowed"), COMMANDS)
def test_allow_rules_match_command_patterns(project: Project, pattern: str, line: str, allowed: bool):
    assert project.verdict(line, {"allow": [{"command": pattern}]}) == ("allow" if allowed else "ask")


DENIED = [
    ("rm *", "rm x", "deny"),
    ("rm *", "/bin/rm x", "deny"),
    ("rm *", "RM x", "deny"),
    ("rm *", "sudo rm x", "deny"),
    ("rm *", "env A=1 rm x", "deny"),
    ("rm *", "ls | xargs rm", "deny"),
    ("rm *", "find . -name x -exec rm {} +", "deny"),
    ("rm *", "bash -c 'ls; rm x'", "deny"),
    ("rm *", "echo $(rm x)", "deny"),
    ("rm *", "ls && (rm x)", "deny"),
    ("rm *", "r''m x", "deny"),
    ("rm *", "eval 'rm x'", "deny"),
    ("rm *", "f() { rm x; }", "deny"),
    ("rm *", "rm 'unclosed", "deny"),
    ("rm *", "uv run rm x", "ask"),
    ("rm *", "$X x", "ask"),
    ("rm *", 'bash -c "$X"', "ask"),
    ("rm *", "ls", "allow"),
    ("rm *", "echo rm x", "allow"),
    ("git push *", "git push", "deny"),
    ("git push *", "git -C src push origin", "deny"),
    ("git push *", "git -c a=b push", "deny"),
    ("git push *", "git --no-pager push", "deny"),
    ("git push *", "git $X", "ask"),
    ("git push * --force*", "git push origin x --force-with-lease", "deny"),
    ("git push * --force*", "git push origin $X", "ask"),
    ("* --force", "npm publish --force", "deny"),
]


@pytest.mark.parametrize(("pattern", "line", "effect"), DENIED)
def test_deny_and_ask_rules_match_command_patterns(project: Project, pattern: str, line: str, effect: str):
    user = {"allow": ["execute"], "deny": [{"command": pattern}]}
    assert project.verdict(line, user, mode="full-access") == effect
    ask_rules = {"allow": ["execute"], "ask": [{"command": pattern}]}
    assert project.verdict(line, ask_rules, mode="full-access") == ("allow" if effect == "allow" else "ask")


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://EXAMPLE.com:8080", True),
        ("example.com", "https://www.example.com", False),
        ("example.com", "https://example.com.evil.org", False),
        ("example.com", "https://example.com@evil.org/", False),
        ("example.com", "https://evil.org/example.com", False),
        ("example.com", "https://evil.org\\@example.com", False),
        ("example.com", "https://example.com%2eevil.org", False),
        ("example.com", "https://example.com./", True),
        ("example.com", "ftp://example.com", False),
        ("example.com", "//example.com", False),
        ("example.com", "https://exаmple.com", False),
        ("*.example.com", "https://a.b.example.com", True),
        ("*.example.com", "https://example.com", False),
        ("*.example.com", "https://badexample.com", False),
        ("*", "https://anything.org", True),
        ("*", "not a url", False),
        ("*", "https:// example.com", False),
    ],
)
def test_host_patterns_match(project: Project, pattern: str, url: str, allowed: bool):
    assert project.decide(project.fetch(url), {"allow": [{"host": pattern}]}).effect == (
        "allow" if allowed else "ask"
    )
    if allowed:
        assert (
            project.decide(project.fetch(url, mode="full-access"), {"deny": [{"host": pattern}]}).effect
            == "deny"
        )
    else:
        assert project.decide(project.fetch(url), {"deny": [{"host": pattern}]}).effect != "allow"


def test_deny_wins_over_ask_and_ask_over_allow(project: Project):
    allow, ask, deny = ({name: ["edit"]} for name in ("allow", "ask", "deny"))
    assert project.decide(project.edit("a.py"), allow).effect == "allow"
    assert project.decide(project.edit("a.py"), allow | ask).effect == "ask"
    assert project.decide(project.edit("a.py"), allow | ask | deny).effect == "deny"
    assert project.decide(project.edit("a.py", mode="full-access"), ask).effect == "ask"


def test_an_ask_rule_asks_every_time(project: Project):
    user = {"ask": [{"command": "npm test"}]}
    grants = always(project, "npm test")
    decision = project.decide(project.run("npm test", grants=grants), user)
    assert (decision.effect, decision.scope) == ("ask", None)


def test_tool_rules_match_name_patterns(project: Project):
    assert project.decide(project.mcp(), {"allow": [{"tool": "mcp__db__*"}]}).effect == "allow"
    assert project.decide(project.mcp(), {"allow": [{"tool": "mcp__web__*"}]}).effect == "ask"
    assert project.decide(project.mcp(mode="full-access"), {"deny": [{"tool": "MCP__*"}]}).effect == "deny"
    assert project.decide(project.mcp(tool="", mode="full-access"), {"deny": [{"tool": "x"}]}).effect == "ask"


def test_a_request_without_a_kind_is_asked_for_when_a_rule_denies_a_kind(project: Project):
    user = {"deny": ["edit"], "default": "all"}
    assert project.decide(project.request(mode=None), user).effect == "ask"
    assert project.decide(project.mcp(mode=None), user).effect == "allow"


def test_a_rule_applies_only_when_all_its_conditions_match(project: Project):
    user = {"allow": [{"kind": "edit", "tool": "edit_file", "path": "src/**"}]}
    assert project.decide(project.edit("src/x.py"), user).effect == "allow"
    assert project.decide(project.edit("docs/x.py"), user).effect == "ask"
    assert project.decide(project.edit("src/x.py", tool="write_file"), user).effect == "ask"
    assert project.decide(project.edit("src/x.py", kind="delete"), user).effect == "ask"


def test_edit_rules_apply_to_files_written_by_a_command(project: Project):
    user = {"allow": [{"kind": "edit", "path": "build/**"}]}
    assert project.verdict("echo x > build/y", user) == "allow"
    assert project.verdict("echo x > y", user) == "ask"
    assert project.verdict("touch build/y", user) == "ask"
    assert project.verdict("echo x > build/y", {"deny": [{"kind": "edit", "path": "build/**"}]}) == "deny"


def test_the_default_applies_when_no_rule_matches(project: Project):
    user = {"allow": [{"path": "src/**"}], "default": "none"}
    assert project.decide(project.edit("src/x", mode="full-access"), user).effect == "allow"
    assert project.decide(project.edit("docs/x", mode="full-access"), user).effect == "deny"
    assert project.decide(project.read("docs/x"), user).effect == "deny"
    assert project.decide(project.edit("docs/x", mode="full-access"), "ask").effect == "ask"
    assert project.decide(project.edit("docs/x"), "all").effect == "ask"


def test_project_rules_tighten_permissions(project: Project):
    user = {"allow": ["execute", "edit"]}
    assert project.decide(project.edit("a.py"), user, {"deny": [{"path": "a.py"}]}).effect == "deny"
    assert project.decide(project.edit("a.py"), user, {"ask": ["edit"]}).effect == "ask"
    assert project.decide(project.edit("a.py"), user, {"default": "none"}).effect == "deny"
    assert (
        project.decide(project.edit("a.py"), user, {"default": "none", "allow": ["edit"]}).effect == "allow"
    )
    assert project.decide(project.read("a.py"), user, {"default": "ask"}).effect == "allow"
    assert project.decide(project.read("a.py", mode=None), "reads", {"default": "ask"}).effect == "ask"


def test_project_rules_never_widen_permissions(project: Project):
    wide = {
        "allow": ["execute", "edit", "read", {"path": "/**"}, {"path": ".env"}, {"tool": "*"}],
        "default": "all",
    }
    for request in (
        project.edit("a.py"),
        project.read(".env"),
        project.read("/etc/passwd"),
        project.run("npm test"),
        project.run("$X"),
        project.mcp(),
        project.fetch("https://example.com"),
    ):
        assert project.decide(request, None, wide).effect == "ask"
    assert project.decide(project.edit("a.py", mode="plan"), None, wide).effect == "deny"
    assert project.decide(project.edit("a.py"), {"deny": ["edit"]}, wide).effect == "deny"


def test_a_rejection_for_the_session_denies(project: Project):
    grants = granted((project.run("npm test"), "reject_always"), (project.edit("a.py"), "reject_always"))
    user = rules({"allow": ["execute", "edit"]})
    assert (
        project.decide(project.run("npm test -- x", grants=grants, mode="full-access"), user).effect == "deny"
    )
    assert project.decide(project.run("ls && npm test", grants=grants), user).effect == "deny"
    assert project.decide(project.run("npm install", grants=grants), user).effect == "allow"
    assert project.decide(project.edit("b.py", grants=grants), user).effect == "deny"
    assert project.decide(project.edit("b.py", grants=grants, tool="write_file"), user).effect == "allow"
