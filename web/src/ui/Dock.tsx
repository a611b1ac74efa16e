/** What stands between the conversation and the prompt: questions, the plan, prompts that wait. */
import type { Session } from "../state/session.ts";
import { plainText, type Piece } from "../state/entries.ts";
import { useGateway } from "./context.ts";
import { Icon } from "./icons.tsx";
import { QuestionCard } from "./Questions.tsx";
import { SignIn } from "./SignIn.tsx";

export function Dock({ session }: { session: Session }) {
  const gateway = useGateway();
  const { agent, sessionId } = session.address;
  const questions = gateway.questions.value.filter((question) => question.agent === agent && question.sessionId === sessionId);
  return (
    <>
      <div class="questions">
        {questions.map((question) => (
          <QuestionCard key={question.key} question={question} session={session} />
        ))}
        {session.locked.value && (
          <section class="card" role="group" aria-label={`${agent} wants you to sign in`}>
            <header>
              <Icon name="warning" /> <h3>{agent} wants you to sign in</h3>
            </header>
            <SignIn agent={agent} done={() => session.unlocked()} />
          </section>
        )}
        {session.outside.value.map((item) => (
          <p class="notice info" key={item.id}>
            <Icon name="fetch" />
            <span>Waiting until you are done at {new URL(item.url).host}.</span>
            <button
              type="button"
              class="quiet small"
              onClick={() => {
                session.outside.value = session.outside.value.filter((one) => one !== item);
              }}
            >
              Dismiss
            </button>
          </p>
        ))}
      </div>
      <Plan session={session} />
      <Queue session={session} />
    </>
  );
}

const STEP = { pending: "to do", in_progress: "now", completed: "done" } as const;

function Plan({ session }: { session: Session }) {
  const plan = session.conversation.value.plan.value;
  if (plan.length === 0) return null;
  const done = plan.filter((step) => step.status === "completed").length;
  const now = plan.find((step) => step.status === "in_progress") ?? plan.find((step) => step.status === "pending");
  return (
    <details class="plan">
      <summary>
        <strong>Plan</strong>{" "}
        <span class="faint">
          {done} of {plan.length}
        </span>
        {now && <span class="plan-now">{now.content}</span>}
      </summary>
      <ol>
        {plan.map((step, index) => (
          <li key={index} class={step.status}>
            <span class="mark" aria-hidden="true">
              {step.status === "completed" ? <Icon name="check" /> : step.status === "in_progress" ? <span class="pulse" /> : <Icon name="other" />}
            </span>
            <span>
              {step.content}
              <span class="unseen"> ({STEP[step.status]})</span>
            </span>
            {step.priority === "high" && <span class="tag">first</span>}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Queue({ session }: { session: Session }) {
  const waiting = session.queue.prompts.value;
  if (waiting.length === 0) return null;
  const again = () => {
    const first = session.queue.take();
    if (first) session.submit(first);
  };
  return (
    <section class="queue" aria-label="Prompts that wait">
      {session.queue.held.value && (
        <p>
          <span>These prompts have not been sent.</span>
          <button type="button" class="small" onClick={again}>
            Send now
          </button>
        </p>
      )}
      <ol>
        {waiting.map((item) => {
          const text = plainText(item.blocks as Piece[]) || "a picture";
          return (
            <li key={item.id}>
              <span>{text}</span>
              <button
                type="button"
                class="quiet small"
                aria-label={`Take back: ${text}`}
                onClick={() => {
                  session.queue.remove(item.id);
                  if (session.draft.value === "") session.draft.value = plainText(item.blocks as Piece[]);
                  document.getElementById("prompt")?.focus();
                }}
              >
                <Icon name="close" />
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
