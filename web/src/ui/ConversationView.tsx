/** The conversation of a session. It stays scrolled to its end until the reader scrolls up. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t, type PlainKey } from "../messages/messages.ts";
import {
  type Compaction,
  type Entry,
  type Notice,
  type TurnEnd,
} from "../state/conversation.ts";
import { useGateway } from "../state/gateway.ts";
import { duration } from "../text/format.ts";
import type { Session } from "../state/session.ts";
import { plainError } from "../text/plain-error.ts";
import { Markdown } from "./ContentBlocks.tsx";
import { ErrorDetails, Icon } from "./elements.tsx";
import { RichText } from "./RichText.tsx";
import { AgentMessage, Thought, TurnSummary, UserMessage } from "./Messages.tsx";
import { ToolCallView } from "./ToolCallView.tsx";

/** The conversation follows its end again when the reader is this close to it, in pixels. */
const FOLLOW_DISTANCE = 60;

export function ConversationView({ session }: { session: Session }) {
  const conversation = session.conversation.value;
  const entries = conversation.entries.value;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const previousTop = useRef(0);
  const [scrolledUp, setScrolledUp] = useState(false);

  const scrollToEnd = () => {
    following.current = true;
    setScrolledUp(false);
    if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  };

  useLayoutEffect(scrollToEnd, [conversation]);
  useEffect(() => {
    const follow = () => {
      if (following.current && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
    };
    const observer = new ResizeObserver(follow);
    if (content.current) observer.observe(content.current);
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);

  const onScroll = (element: HTMLElement) => {
    const distance = element.scrollHeight - element.scrollTop - element.clientHeight;
    // Only the reader scrolls up. New text or a smaller window also moves the end out of view, but not
    // upwards.
    if (element.scrollTop < previousTop.current - 1 && distance > 2) following.current = false;
    else if (distance < FOLLOW_DISTANCE) following.current = true;
    previousTop.current = element.scrollTop;
    setScrolledUp(!following.current);
  };

  return (
    <div class="conversation-frame">
      <div
        class="conversation"
        ref={scroller}
        role="log"
        aria-label={t("conversation.label")}
        aria-live="off"
        aria-busy={session.running.value}
        tabIndex={0}
        onScroll={(event) => onScroll(event.currentTarget)}
      >
        <div class="conversation-content" ref={content}>
          {session.state.value === "loading" && <p class="muted centered">{t("conversation.loading")}</p>}
          {session.state.value === "ready" && entries.length === 0 && <EmptyConversation />}
          {entries.map((entry) => (
            <div class="entry" key={entry.key}>
              <EntryView entry={entry} session={session} />
            </div>
          ))}
          {session.running.value ? <TurnStatus session={session} /> : <TurnSummary session={session} />}
        </div>
      </div>
      {scrolledUp && (
        <button type="button" class="scroll-to-end" onClick={scrollToEnd}>
          <Icon name="down" /> {t("conversation.latest")}
        </button>
      )}
    </div>
  );
}

function EmptyConversation() {
  if (useGateway().readOnly.value) return <p class="muted centered">{t("conversation.empty")}</p>;
  return (
    <div class="empty-state">
      <h2>{t("conversation.start")}</h2>
      <p>
        <RichText message="conversation.startHelp" />
      </p>
    </div>
  );
}

function TurnStatus({ session }: { session: Session }) {
  const waiting = session.requests.value.length > 0;
  const text = t(
    session.cancelling.value
      ? "conversation.canceling"
      : waiting
        ? "conversation.waiting"
        : "conversation.working",
  );
  const [now, setNow] = useState(Date.now());
  const since = session.turnStart.value ?? now;
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class={`turn-status ${waiting ? "waiting" : ""}`}>
      <span class="pulse" /> {text} <span class="turn-time">{duration(now - since)}</span>
    </p>
  );
}

function EntryView({ entry, session }: { entry: Entry; session: Session }) {
  switch (entry.kind) {
    case "user":
      return <UserMessage message={entry} session={session} />;
    case "agent":
      return <AgentMessage message={entry} />;
    case "thought":
      return <Thought message={entry} />;
    case "tool":
      return <ToolCallView call={entry} session={session} />;
    case "notice":
      return <NoticeView notice={entry} />;
    case "compaction":
      return <CompactionView compaction={entry} />;
    case "turn_end":
      return <TurnEndView end={entry} session={session} />;
  }
}

function NoticeView({ notice }: { notice: Notice }) {
  const { severity } = notice;
  return (
    <aside class={`notice ${severity === "error" || severity === "warning" ? severity : "info"}`}>
      <Icon name={severity === "info" ? "bell" : "warning"} />
      <div>
        <strong>{notice.title}</strong>
        {notice.description && <p>{notice.description}</p>}
      </div>
    </aside>
  );
}

const COMPACTION_STATUS: Record<string, PlainKey> = {
  in_progress: "compaction.running",
  completed: "compaction.completed",
  failed: "compaction.failed",
  cancelled: "compaction.canceled",
};

function CompactionView({ compaction }: { compaction: Compaction }) {
  void compaction.revision.value;
  return (
    <aside class="divider">
      <details class="collapsible" open={false}>
        <summary>{t(COMPACTION_STATUS[compaction.status] ?? "compaction.other")}</summary>
        {compaction.error && <p class="error-text">{compaction.error}</p>}
        {compaction.summary && <Markdown text={compaction.summary} />}
      </details>
    </aside>
  );
}

const TURN_ENDS: Record<string, PlainKey> = {
  cancelled: "turnEnd.canceled",
  max_tokens: "turnEnd.tokens",
  max_turn_requests: "turnEnd.requests",
  refusal: "turnEnd.refusal",
  error: "turnEnd.error",
  interrupted: "turnEnd.interrupted",
};

function plainEnd({ reason, error, code }: TurnEnd): string {
  if (reason === "error" && error !== null) return plainError({ message: error, code }, "turnEnd.error");
  const key = TURN_ENDS[reason];
  return key ? t(key) : t("turnEnd.other", { reason });
}

/** Ends after which users may want to send the same prompt again. */
const RETRIED_ENDS = new Set(["error", "interrupted", "cancelled"]);

const FAILED_ENDS = new Set(["error", "refusal"]);

function TurnEndView({ end, session }: { end: TurnEnd; session: Session }) {
  const { readOnly } = useGateway();
  const isLast = session.conversation.value.entries.value.at(-1) === end;
  const canRetry = isLast && RETRIED_ENDS.has(end.reason) && !readOnly.value && !session.onlyReadable.value;
  const text = plainEnd(end);
  const failed = FAILED_ENDS.has(end.reason);
  const unfinished = failed || end.reason === "interrupted";
  return (
    <aside class={`divider ${unfinished ? "unfinished" : ""} ${failed ? "failed" : ""}`}>
      {unfinished && <Icon name="warning" />}
      <span>{text}</span>
      {end.reason !== "interrupted" && (
        <ErrorDetails message={end.error === text ? null : end.error} stderrTail={end.stderrTail} />
      )}
      {canRetry && !session.running.value && (
        <button type="button" class="small" onClick={() => session.tryAgain()}>
          {t("app.tryAgain")}
        </button>
      )}
    </aside>
  );
}
