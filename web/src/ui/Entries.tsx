/** One component for each kind of entry in a conversation. */
import { useState } from "preact/hooks";
import { plainText, type Compaction, type Ending, type Entry, type Message, type Notice } from "../state/entries.ts";
import type { Session } from "../state/session.ts";
import { Said } from "./FaultView.tsx";
import { Icon } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { Pieces } from "./Pieces.tsx";
import { ToolCall } from "./ToolCall.tsx";

export function EntryView({ entry, session }: { entry: Entry; session: Session }) {
  switch (entry.kind) {
    case "user":
      return <UserMessage message={entry} />;
    case "agent":
      return <AgentMessage message={entry} />;
    case "thought":
      return <Thought message={entry} />;
    case "tool":
      return <ToolCall call={entry} session={session} />;
    case "notice":
      return <NoticeView notice={entry} />;
    case "compaction":
      return <CompactionView item={entry} />;
    case "ending":
      return <EndingView ending={entry} />;
  }
}

function UserMessage({ message }: { message: Message }) {
  void message.revision.value;
  return (
    <article class="message user" aria-label="You">
      {message.pieces.map((piece, index) =>
        // What people type is shown as they typed it.
        piece.type === "text" ? <p key={index} class="typed">{piece.text}</p> : <Pieces key={index} pieces={[piece]} />,
      )}
    </article>
  );
}

function AgentMessage({ message }: { message: Message }) {
  void message.revision.value;
  return (
    <article class="message agent" aria-label="Agent" aria-busy={!message.closed}>
      <Pieces pieces={message.pieces} growing={!message.closed} />
    </article>
  );
}

function Thought({ message }: { message: Message }) {
  void message.revision.value;
  const [open, setOpen] = useState(false);
  const text = plainText(message.pieces);
  const line = text.trim().split("\n").at(message.closed ? 0 : -1) ?? "";
  return (
    <section class="thought" aria-label="Thoughts">
      <button type="button" class="thought-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="think" />
        <span class="thought-name">{message.closed ? "Thought" : "Thinking"}</span>
        {!open && <span class="thought-line">{line.replace(/[*_`#]/g, "")}</span>}
        <span class={open ? "turned" : ""}>
          <Icon name="chevron" />
        </span>
      </button>
      {open && (
        <div class="thought-body">
          <Markdown text={text} growing={!message.closed} />
        </div>
      )}
    </section>
  );
}

function NoticeView({ notice }: { notice: Notice }) {
  return (
    <aside class={`notice ${notice.severity === "error" || notice.severity === "warning" ? notice.severity : "info"}`}>
      <Icon name={notice.severity === "info" ? "bell" : "warning"} />
      <div>
        <strong>{notice.title}</strong>
        {notice.description && <p>{notice.description}</p>}
      </div>
    </aside>
  );
}

const COMPACTION: Record<string, string> = {
  in_progress: "Summing up the conversation so far…",
  completed: "The conversation so far was summed up to make room",
  failed: "Summing up the conversation failed",
  cancelled: "Summing up the conversation was cancelled",
};

function CompactionView({ item }: { item: Compaction }) {
  void item.revision.value;
  return (
    <aside class="divider">
      <details class="fold" open={false}>
        <summary>{COMPACTION[item.status] ?? "The conversation was compacted"}</summary>
        {item.error && <p class="fault">{item.error}</p>}
        {item.summary && <Markdown text={item.summary} />}
      </details>
    </aside>
  );
}

const ENDINGS: Record<string, string> = {
  cancelled: "You cancelled this turn",
  max_tokens: "The agent ran into the limit of tokens",
  max_turn_requests: "The agent used up the requests it may make in one turn",
  refusal: "The agent declines to go on; this prompt and what followed it will not be part of its memory",
  error: "The turn failed",
};

function EndingView({ ending }: { ending: Ending }) {
  return (
    <aside class={`divider ${ending.reason === "error" || ending.reason === "refusal" ? "bad" : ""}`}>
      <span>
        {ENDINGS[ending.reason] ?? `The turn ended: ${ending.reason}`}
        {ending.detail && `: ${ending.detail}`}
      </span>
      <Said text={ending.said} />
    </aside>
  );
}
