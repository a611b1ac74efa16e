/** A tool call: one line with its status, and its content, which can be expanded. */
import type * as acp from "@agentclientprotocol/sdk";
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { isRunning, type MessageBlock, type ToolCall } from "../state/conversation.ts";
import type { Session } from "../state/session.ts";
import { relativePath } from "../text/format.ts";
import { CodeBlock, ContentBlock } from "./ContentBlocks.tsx";
import { DiffView } from "./DiffView.tsx";
import { Icon } from "./elements.tsx";
import { StopWork } from "./StopWork.tsx";
import { TerminalView } from "./TerminalView.tsx";

const MAX_RAW_LENGTH = 100_000;

const STATUS_LABELS = {
  pending: "tool.pending",
  in_progress: "tool.running",
  completed: "tool.completed",
  failed: "tool.failed",
  cancelled: "tool.canceled",
} as const;

export function ToolCallView({ call, session }: { call: ToolCall; session: Session }) {
  void call.revision.value;
  const [userChoice, setUserChoice] = useState<boolean | null>(null);
  const running = isRunning(call);
  const hasContent = call.content.length > 0 || call.rawInput !== undefined || call.rawOutput !== undefined;
  const open = hasContent && (userChoice ?? opensByDefault(call, session, running));
  const { cwd } = session.address;
  const locations = call.locations.map(
    ({ path, line }) => relativePath(path, cwd) + (line ? `:${line}` : ""),
  );
  const title = call.title || call.toolKind;
  const locationInTitle = title.includes(relativePath(call.locations[0]?.path ?? "", cwd));
  return (
    <section class={`tool ${call.status}`} aria-label={`${title}, ${t(STATUS_LABELS[call.status])}`}>
      <div class="tool-row">
        <button
          type="button"
          class="tool-header"
          aria-expanded={open}
          disabled={!hasContent}
          onClick={() => setUserChoice(!open)}
        >
          <span class="tool-kind">
            <Icon name={call.toolKind} />
          </span>
          <span class="tool-title">{title}</span>
          {locations[0] && !locationInTitle && <span class="tool-location">{locations[0]}</span>}
          {locations.length > 1 && <span class="tool-location">+{locations.length - 1}</span>}
          <ToolStatus status={call.status} />
          {hasContent && (
            <span class={open ? "rotated" : ""}>
              <Icon name="chevron" />
            </span>
          )}
        </button>
        {running && <StopWork session={session} work={{ kind: "tool_call", id: call.toolCallId }} />}
      </div>
      {open && (
        <div class="tool-body">
          <ToolCallContent
            session={session}
            content={call.content}
            running={running}
            rawInput={call.rawInput}
            rawOutput={call.rawOutput}
          />
        </div>
      )}
    </section>
  );
}

/** Diffs and running terminals are open, unless a permission request below shows the same content. */
function opensByDefault(call: ToolCall, session: Session, running: boolean): boolean {
  const requested = session.requests.value.some(
    (request) => request.kind === "permission" && request.params.toolCall.toolCallId === call.toolCallId,
  );
  if (requested) return false;
  return call.content.some((item) => item.type === "diff" || (running && item.type === "terminal"));
}

function ToolStatus({ status }: { status: ToolCall["status"] }) {
  let icon = <span class="pulse" />;
  if (status === "completed") icon = <Icon name="check" />;
  if (status === "failed" || status === "cancelled") icon = <Icon name="cross" />;
  return (
    <span class={`status ${status}`}>
      {icon}
      <span class={status === "completed" ? "visually-hidden" : ""}>{t(STATUS_LABELS[status])}</span>
    </span>
  );
}

interface ToolCallContentProps {
  session: Session;
  content: readonly acp.ToolCallContent[];
  running: boolean;
  rawInput?: unknown;
  /** Whether the raw input is unfolded at first. By default, if there is no content. */
  rawInputOpen?: boolean | undefined;
  rawOutput?: unknown;
}

/**
 * The content of a tool call: blocks, diffs, terminals and the raw input. Without content also the raw
 * output.
 */
export function ToolCallContent(props: ToolCallContentProps) {
  const { session, content, running, rawInput, rawOutput } = props;
  const { rawInputOpen = content.length === 0 } = props;
  const { cwd } = session.address;
  return (
    <>
      {content.map((item, index) => {
        if (item.type === "diff") {
          const { path, oldText = null, newText } = item;
          return <DiffView key={index} path={path} oldText={oldText} newText={newText} cwd={cwd} />;
        }
        if (item.type === "terminal") {
          const { terminalId } = item;
          return (
            <TerminalView key={terminalId} session={session} terminalId={terminalId} running={running} />
          );
        }
        return <ContentBlock key={index} block={item.content as MessageBlock} />;
      })}
      {rawInput !== undefined && <RawData name={t("tool.input")} value={rawInput} open={rawInputOpen} />}
      {rawOutput !== undefined && content.length === 0 && (
        <RawData name={t("tool.output")} value={rawOutput} open />
      )}
    </>
  );
}

function RawData({ name, value, open }: { name: string; value: unknown; open: boolean }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <details class="collapsible" open={open}>
      <summary>{name}</summary>
      <CodeBlock text={text.slice(0, MAX_RAW_LENGTH)} language={typeof value === "string" ? "" : "json"} />
    </details>
  );
}
