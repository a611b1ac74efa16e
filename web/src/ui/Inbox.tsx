/** All that waits for an answer, over all sessions and agents; answered right here. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Question } from "../state/questions.ts";
import { allow, permission } from "../state/notifications.ts";
import { useGateway } from "./context.ts";
import { ago, baseName } from "./format.ts";
import { Icon } from "./icons.tsx";
import { QuestionCard } from "./Questions.tsx";
import { addressOf } from "./route.ts";
import { Session } from "../state/session.ts";

export function Inbox() {
  const gateway = useGateway();
  const questions = gateway.questions.value;
  // From here Tab leads to the first question; no answer has the focus.
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => head.current?.focus(), []);
  return (
    <main class="sheet">
      <header class="sheet-head">
        <a class="button quiet round phone" href="#/" aria-label="Back to the sessions">
          <Icon name="back" />
        </a>
        <h2 ref={head} tabIndex={-1}>
          Inbox
        </h2>
        {permission.value === "default" && (
          <button type="button" class="small" onClick={() => void allow()}>
            <Icon name="bell" /> Notify me
          </button>
        )}
      </header>
      {permission.value === "denied" && <p class="faint">Notifications are blocked in the settings of this browser.</p>}
      {questions.length === 0 ? <p class="faint">No agent waits for you.</p> : null}
      {questions.map((question) => (
        <Item key={question.key} question={question} />
      ))}
    </main>
  );
}

function Item({ question }: { question: Question }) {
  const gateway = useGateway();
  const { agent, sessionId } = question;
  const listed = gateway.find(agent, sessionId);
  // The card needs a session to ask about, also where this page has not opened it.
  const cwd = listed?.cwd ?? "";
  const session = useMemo(() => gateway.known(agent, sessionId) ?? new Session({ agent, sessionId, cwd }, gateway.say), [agent, sessionId, cwd]);
  return (
    <section class="inbox-item">
      <p>
        {listed ? <a href={addressOf({ at: "session", agent, sessionId })}>{listed.title ?? (baseName(cwd) || "Session")}</a> : <strong>{agent}</strong>}
        <span class="faint">
          {" "}
          {[listed && agent, cwd, ago(new Date(question.since).toISOString())].filter(Boolean).join(" · ")}
        </span>
      </p>
      <QuestionCard question={question} session={session} />
    </section>
  );
}
