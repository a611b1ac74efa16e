/** Prompts, answers and thoughts of a conversation, and what users can do with them. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { plainText, type Message } from "../state/conversation.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { clockTime, duration } from "../text/format.ts";
import { ContentBlocks, Markdown } from "./ContentBlocks.tsx";
import { CopyButton } from "./CopyButton.tsx";
import { Icon } from "./elements.tsx";

/** A prompt. Its text is shown as typed, without Markdown. */
export function UserMessage({ message, session }: { message: Message; session: Session }) {
  void message.revision.value;
  const { readOnly } = useGateway();
  const text = plainText(message.blocks);
  const canEdit = text !== "" && !message.steered && mayPrompt(session, readOnly.value);
  return (
    <div class="user-turn">
      <article class="message user" aria-label={t("conversation.you")}>
        {message.blocks.map((block, index) =>
          block.type === "text" ? (
            <p key={index} class="prompt-text">
              {block.text}
            </p>
          ) : (
            <ContentBlocks key={index} blocks={[block]} />
          ),
        )}
      </article>
      <div class="message-actions">
        {text !== "" && <CopyButton text={text} label={t("conversation.copyPrompt")} compact />}
        {canEdit && (
          <button
            type="button"
            class="quiet small"
            aria-label={t("conversation.edit")}
            title={t(session.canRewind() ? "conversation.editHint" : "conversation.edit")}
            onClick={() => void session.edit(message).then(focusPrompt)}
          >
            <Icon name="edit" />
          </button>
        )}
        {message.time !== null && (
          <time dateTime={new Date(message.time).toISOString()} title={new Date(message.time).toLocaleString()}>
            {clockTime(message.time)}
          </time>
        )}
      </div>
    </div>
  );
}

/** Whether the user may send a prompt now. */
function mayPrompt(session: Session, readOnly: boolean): boolean {
  return !readOnly && !session.onlyReadable.value && !session.running.value;
}

function focusPrompt(): void {
  document.getElementById("prompt")?.focus();
}

export function AgentMessage({ message }: { message: Message }) {
  void message.revision.value;
  return (
    <article class="message agent" aria-label={t("conversation.agent")} aria-busy={!message.complete}>
      <ContentBlocks blocks={message.blocks} growing={!message.complete} />
    </article>
  );
}

/** Below the last turn: how long it took, and what can be done with the answer. */
export function TurnSummary({ session }: { session: Session }) {
  const { readOnly } = useGateway();
  const conversation = session.conversation.value;
  const last = conversation.entries.value.at(-1);
  if (!last || last.kind === "user" || last.kind === "turn_end") return null;
  if (last.kind === "agent") void last.revision.value;
  const answer = conversation.lastAnswer();
  const took = duration(session.turnDuration.value ?? 0);
  const retries = mayPrompt(session, readOnly.value) && conversation.lastPrompt().length > 0;
  return (
    <div class="turn-summary">
      {answer !== "" && <CopyButton text={answer} label={t("conversation.copyAnswer")} compact />}
      {retries && (
        <button
          type="button"
          class="quiet small"
          aria-label={t("conversation.retry")}
          title={t(session.canRewind() ? "conversation.retryHint" : "conversation.retry")}
          onClick={() => void session.retry()}
        >
          <Icon name="retry" />
        </button>
      )}
      {took !== "" && <span class="turn-time">{t("conversation.took", { duration: took })}</span>}
    </div>
  );
}

/** A thought, collapsed to one line: the first, or the latest while it grows. */
export function Thought({ message }: { message: Message }) {
  void message.revision.value;
  const [open, setOpen] = useState(false);
  const text = plainText(message.blocks);
  const line =
    text
      .trim()
      .split("\n")
      .at(message.complete ? 0 : -1) ?? "";
  return (
    <section class="thought" aria-label={t("conversation.thoughts")}>
      <button type="button" class="thought-header" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="think" />
        <span class="thought-label">{t(message.complete ? "conversation.thought" : "conversation.thinking")}</span>
        {!open && <span class="thought-line">{line.replace(/[*_`#]/g, "")}</span>}
        <span class={open ? "rotated" : ""}>
          <Icon name="chevron" />
        </span>
      </button>
      {open && (
        <div class="thought-body">
          <Markdown text={text} growing={!message.complete} />
        </div>
      )}
    </section>
  );
}
