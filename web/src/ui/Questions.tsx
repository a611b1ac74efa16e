/** Cards for what agents ask. Nothing in them is focused by itself, and for a moment nothing can be pressed. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { PermissionQuestion, Question } from "../state/questions.ts";
import { summary } from "../state/questions.ts";
import { ASK_USER } from "../wire/vendor.ts";
import { asError } from "../state/faults.ts";
import type { Session } from "../state/session.ts";
import { Icon } from "./icons.tsx";
import { ToolContent } from "./ToolContent.tsx";
import { AskCard } from "./AskCard.tsx";
import { FormCard } from "./FormCard.tsx";
import { LinkCard } from "./LinkCard.tsx";

/** Someone who was typing or clicking when the card came, or when another one went and this took its place, must not have answered it. */
const CALM = 500;

/** Grows whenever a card comes or goes, because the others then move. */
const moves = signal(0);

export function QuestionCard({ question, session }: { question: Question; session: Session }) {
  if (question.kind === "permission") return <PermissionCard question={question} session={session} />;
  if (question.kind === "elicitation") {
    if (question.params.mode === "form") return <FormCard question={question} />;
    if (question.params.mode === "url") return <LinkCard question={question} session={session} />;
  }
  if (question.kind === "other" && question.method === ASK_USER) return <AskCard question={question} />;
  return (
    <Card label="Question" icon="help">
      <p>{summary(question)}</p>
      <p class="faint">This page does not know questions of this kind. Another client may answer it, or cancel the turn.</p>
    </Card>
  );
}

interface CardProperties {
  label: string;
  icon: "help" | "warning" | "fetch";
  children: ComponentChildren;
  /** A digit was pressed while the card, or something in it, has the focus. */
  onDigit?: (digit: number) => void;
}

export function Card({ label, icon, children, onDigit }: CardProperties) {
  const card = useRef<HTMLElement>(null);
  // When the card goes while it has the focus, the focus would be lost; the prompt is the place to go on.
  useLayoutEffect(() => {
    const element = card.current;
    moves.value += 1;
    return () => {
      moves.value += 1;
      if (element?.contains(document.activeElement)) document.getElementById("prompt")?.focus();
    };
  }, []);
  return (
    <section
      class="card"
      ref={card}
      role="group"
      aria-label={label}
      tabIndex={-1}
      data-question
      onKeyDown={(event) => {
        if (!onDigit || !/^[1-9]$/.test(event.key) || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
        // The answer moves the focus to the prompt, which must not get the digit as well.
        event.preventDefault();
        onDigit(Number(event.key));
      }}
    >
      <header>
        <Icon name={icon} /> <h3>{label}</h3>
      </header>
      {children}
    </section>
  );
}

/** True once the card has been where it is long enough to be meant. */
export function useCalm(): boolean {
  const now = moves.value;
  const [calm, setCalm] = useState(-1);
  useEffect(() => {
    const id = setTimeout(() => setCalm(now), CALM);
    return () => clearTimeout(id);
  }, [now]);
  return calm === now;
}

/** Sends an answer once; says what went wrong if it could not be sent. */
export function useAnswer(question: Question): { send: (result: unknown) => void; sent: boolean; problem: string | null } {
  const [sent, setSent] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const send = (result: unknown) => {
    if (sent) return;
    setSent(true);
    question.answer(result).catch((error: unknown) => {
      setSent(false);
      setProblem(asError(error).message);
    });
  };
  return { send, sent, problem };
}

function PermissionCard({ question, session }: { question: PermissionQuestion; session: Session }) {
  const calm = useCalm();
  const { send, sent, problem } = useAnswer(question);
  const { toolCall, options } = question.params;
  const known = session.conversation.value.toolCall(toolCall.toolCallId);
  const title = toolCall.title || known?.title || "Use a tool";
  const content = toolCall.content ?? known?.content ?? [];
  const rawInput = toolCall.rawInput ?? known?.rawInput;
  const choose = (index: number) => {
    const option = options[index];
    if (option && calm) send({ outcome: { outcome: "selected", optionId: option.optionId } });
  };
  return (
    <Card label="May I?" icon="warning" onDigit={(digit) => choose(digit - 1)}>
      <p class="asked">{title}</p>
      <div class="asked-detail">
        <ToolContent session={session} content={content} running={false} rawInput={rawInput} />
      </div>
      <div class="choices" role="group" aria-label={`Answers to: ${title}`}>
        {options.map((option, index) => (
          <button
            type="button"
            key={option.optionId}
            class={option.kind.startsWith("allow") ? "allow" : "reject"}
            data-kind={option.kind}
            disabled={!calm}
            aria-disabled={sent}
            onClick={() => choose(index)}
          >
            {option.name}
          </button>
        ))}
      </div>
      {problem && (
        <p class="fault" role="alert">
          The answer could not be sent: {problem}
        </p>
      )}
    </Card>
  );
}
