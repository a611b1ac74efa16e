/** Ends one tool call or terminal of an agent while the turn goes on, and lists the background work. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import type { Session } from "../state/session.ts";
import type { BackgroundWork } from "../wire/session-events.ts";
import { Icon } from "./elements.tsx";

/** A button that ends a tool call or a terminal, if the agent offers that. */
export function StopWork({ session, work }: { session: Session; work: BackgroundWork }) {
  const [asked, setAsked] = useState(false);
  if (!session.canCancel(work)) return null;
  const label = t("work.stop", { work: session.labelOf(work) });
  const stop = async () => {
    setAsked(true);
    await session.cancelWork(work);
    setAsked(false);
  };
  return (
    <button
      type="button"
      class="quiet small stop-work"
      title={label}
      aria-label={label}
      disabled={asked}
      onClick={() => void stop()}
    >
      <Icon name="stop" />
    </button>
  );
}

/** What the agent does in the background. It may go on after the turn. */
export function Background({ session }: { session: Session }) {
  const background = session.background.value;
  if (background.length === 0) return null;
  return (
    <ul class="background-work" aria-label={t("work.background")}>
      {background.map((work) => (
        <li key={`${work.kind} ${work.id}`}>
          <span class="pulse" />
          <span class="background-label">{session.labelOf(work)}</span>
          <StopWork session={session} work={work} />
        </li>
      ))}
    </ul>
  );
}
