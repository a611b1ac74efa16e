/**
 * The frame of a card for a pending request, and what all cards share.
 *
 * A card never takes the focus by itself, and its buttons are disabled for a moment after it appears or
 * moves. So a user who is typing or clicking cannot answer a request by accident.
 */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import type { PendingRequest } from "../state/pending-requests.ts";
import { errorReport } from "../wire/extension-methods.ts";
import { ErrorText, Icon, type IconName } from "./elements.tsx";

const DISABLED_MS = 500;

interface CardProps {
  label: string;
  icon: IconName;
  children: ComponentChildren;
  /** Called when the user presses a digit while the focus is in the card. */
  onDigit?: (digit: number) => void;
}

/** Counts the cards that appeared or disappeared. Each time, the other cards may move. */
const cardMoves = signal(0);

export function Card({ label, icon, children, onDigit }: CardProps) {
  const card = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    cardMoves.value += 1;
    return () => {
      cardMoves.value += 1;
      // Move the focus to the prompt instead of losing it with the card.
      if (element?.contains(document.activeElement)) document.getElementById("prompt")?.focus();
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const modified = event.repeat || event.ctrlKey || event.metaKey || event.altKey;
    if (!onDigit || !/^[1-9]$/.test(event.key) || modified) return;
    // The answer moves the focus to the prompt. Do not type the digit there.
    event.preventDefault();
    onDigit(Number(event.key));
  };
  return (
    <section
      class="card"
      ref={card}
      role="group"
      aria-label={label}
      tabIndex={-1}
      data-request
      onKeyDown={onKeyDown}
    >
      <header>
        <Icon name={icon} /> <h3>{label}</h3>
      </header>
      {children}
    </section>
  );
}

/** Whether no card has moved for a moment, so that a click is meant for the button under the pointer. */
export function useEnabled(): boolean {
  const moves = cardMoves.value;
  const [settledMoves, setSettledMoves] = useState(-1);
  useEffect(() => {
    const timer = setTimeout(() => setSettledMoves(moves), DISABLED_MS);
    return () => clearTimeout(timer);
  }, [moves]);
  return settledMoves === moves;
}

/** Sends one answer. If that fails, reports the error and allows another attempt. */
export function useAnswer(request: PendingRequest) {
  const [sent, setSent] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const send = (result: unknown) => {
    if (sent) return;
    setSent(true);
    request.answer(result).catch((reason: unknown) => {
      setSent(false);
      setError(errorReport(reason).message);
    });
  };
  return { send, sent, error };
}

export function AnswerError({ error }: { error: string | null }) {
  return error && <ErrorText>{t("request.answerFailed", { reason: error })}</ErrorText>;
}
