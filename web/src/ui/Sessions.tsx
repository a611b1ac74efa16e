/** The sessions of all agents, with what each is doing, and the ways to everything else. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { ListedSession } from "../wire/vendor.ts";
import { useGateway } from "./context.ts";
import { ago, baseName } from "./format.ts";
import { Icon } from "./icons.tsx";
import { addressOf, route } from "./route.ts";
import { helpOpen } from "./shortcuts.ts";
import { nextTheme, theme } from "./theme.ts";

const STATES = { running: "Running", waiting: "Waiting for you", idle: "Idle" } as const;
const THEMES = { system: "as the system", light: "light", dark: "dark" } as const;

export function Sessions() {
  const gateway = useGateway();
  const [filter, setFilter] = useState("");
  const waiting = gateway.questions.value.length;
  const wanted = filter.trim().toLowerCase();
  const shown = gateway.listed.value.filter((item) => `${item.title ?? ""} ${item.agent} ${item.cwd}`.toLowerCase().includes(wanted));
  return (
    <nav class="sessions" aria-label="Sessions">
      <header class="brand">
        <img src="./icon.svg" alt="" width="26" height="26" />
        <h1>Accord</h1>
        <LineState />
      </header>
      <Actions waiting={waiting} />
      {gateway.listed.value.length > 6 && (
        <input id="filter" type="search" placeholder="Find a session" aria-label="Find a session" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      )}
      <ul class="session-list">
        {shown.map((item) => (
          <SessionLink key={`${item.agent}/${item.sessionId}`} item={item} />
        ))}
        {shown.length === 0 && <li class="faint none">{wanted ? "Nothing fits." : "No sessions yet."}</li>}
      </ul>
      <footer>
        <button type="button" class="quiet" aria-label={`Colours: ${THEMES[theme.value]}. Change`} title={`Colours: ${THEMES[theme.value]}`} onClick={nextTheme}>
          <Icon name={theme.value === "light" ? "sun" : theme.value === "dark" ? "moon" : "system"} />
        </button>
        <button
          type="button"
          class="quiet"
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
          onClick={() => {
            helpOpen.value = true;
          }}
        >
          <Icon name="help" />
        </button>
        <span class="space" />
        <button type="button" class="quiet" aria-label="Sign out" title="Sign out" onClick={() => void gateway.leave()}>
          <Icon name="leave" />
        </button>
      </footer>
    </nav>
  );
}

/** A token that only reads begins nothing and answers nothing, and is told of no questions. */
function Actions({ waiting }: { waiting: number }) {
  const gateway = useGateway();
  if (gateway.readOnly.value) return null;
  return (
    <div class="actions">
      <a class="button primary" href={addressOf({ at: "new" })}>
        <Icon name="plus" /> New session
      </a>
      <a class="button" href={addressOf({ at: "inbox" })} aria-current={route.value.at === "inbox" ? "page" : undefined}>
        <Icon name="inbox" /> Inbox
        {waiting > 0 && (
          <span class="badge" aria-label={`${waiting} waiting for you`}>
            {waiting}
          </span>
        )}
      </a>
    </div>
  );
}

function SessionLink({ item }: { item: ListedSession }) {
  const at = route.value;
  const here = at.at === "session" && at.agent === item.agent && at.sessionId === item.sessionId;
  const now = useMinute();
  const link = useRef<HTMLAnchorElement>(null);
  // The keys move through the list without scrolling it.
  useEffect(() => {
    if (here) link.current?.scrollIntoView({ block: "nearest" });
  }, [here]);
  return (
    <li>
      <a ref={link} class="session-link" href={addressOf({ at: "session", agent: item.agent, sessionId: item.sessionId })} aria-current={here ? "page" : undefined}>
        <span class={`dot ${item.state}`} aria-hidden="true" />
        <span class="session-title">{item.title ?? (baseName(item.cwd) || "Untitled")}</span>
        <span class="session-time">{ago(item.updatedAt, now)}</span>
        <span class="session-place">
          {item.state === "idle" ? <span class="unseen">{STATES.idle}. </span> : <strong class={item.state}>{STATES[item.state]} · </strong>}
          {item.agent} · {baseName(item.cwd)}
        </span>
      </a>
    </li>
  );
}

function useMinute(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const id = setInterval(() => setNow(Date.now()), 60_000);
    return () => clearInterval(id);
  }, []);
  return Math.max(now, Date.now());
}

function LineState() {
  const gateway = useGateway();
  const state = gateway.line.value;
  if (state === "open") return null;
  return <span class="line-state">{state === "connecting" ? "Connecting…" : "Reconnecting…"}</span>;
}
