/** A tool call in one line, with its live status; what it did is below, folded unless it is worth seeing at once. */
import { useState } from "preact/hooks";
import type { ToolCall as Call } from "../state/entries.ts";
import type { Session } from "../state/session.ts";
import { Icon } from "./icons.tsx";
import { within } from "./format.ts";
import { ToolContent } from "./ToolContent.tsx";

const STATUS = {
  pending: "waiting",
  in_progress: "running",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
} as const;

export function ToolCall({ call, session }: { call: Call; session: Session }) {
  void call.revision.value;
  const [choice, setChoice] = useState<boolean | null>(null);
  const running = call.status === "pending" || call.status === "in_progress";
  const telling = call.content.some((item) => item.type === "diff") || (running && call.content.some((item) => item.type === "terminal"));
  const full = call.content.length > 0 || call.rawInput !== undefined || call.rawOutput !== undefined;
  // While the card below asks about this call, it shows what the call would do.
  const asked = session.questions.value.some((question) => question.kind === "permission" && question.params.toolCall.toolCallId === call.toolCallId);
  const open = full && (choice ?? (telling && !asked));
  const places = call.locations.map((location) => within(location.path, session.address.cwd) + (location.line ? `:${location.line}` : ""));
  const title = call.title || call.tool;
  return (
    <section class={`tool ${call.status}`} aria-label={`${title}, ${STATUS[call.status]}`}>
      <button type="button" class="tool-head" aria-expanded={open} disabled={!full} onClick={() => setChoice(!open)}>
        <span class="tool-kind">
          <Icon name={call.tool} />
        </span>
        <span class="tool-title">{title}</span>
        {places[0] && !title.includes(within(call.locations[0]?.path ?? "", session.address.cwd)) && <span class="tool-place">{places[0]}</span>}
        {places.length > 1 && <span class="tool-place">+{places.length - 1}</span>}
        <Status status={call.status} />
        {full && (
          <span class={open ? "turned" : ""}>
            <Icon name="chevron" />
          </span>
        )}
      </button>
      {open && (
        <div class="tool-body">
          <ToolContent session={session} content={call.content} running={running} rawInput={call.rawInput} rawOutput={call.rawOutput} />
        </div>
      )}
    </section>
  );
}

function Status({ status }: { status: Call["status"] }) {
  return (
    <span class={`status ${status}`}>
      {status === "completed" ? <Icon name="check" /> : status === "failed" || status === "cancelled" ? <Icon name="cross" /> : <span class="pulse" />}
      <span class={status === "completed" ? "unseen" : ""}>{STATUS[status]}</span>
    </span>
  );
}
