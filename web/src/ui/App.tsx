/** The whole page: who is let in, what is shown where, and what is said to those who listen. */
import { useEffect } from "preact/hooks";
import type { Gateway } from "../state/gateway.ts";
import { GatewayContext, useGateway } from "./context.ts";
import { FaultView } from "./FaultView.tsx";
import { Help } from "./Help.tsx";
import { Inbox } from "./Inbox.tsx";
import { Login } from "./Login.tsx";
import { NewSession } from "./NewSession.tsx";
import { visible } from "../text/visible.ts";
import { route } from "./route.ts";
import { Sessions } from "./Sessions.tsx";
import { SessionView } from "./SessionView.tsx";
import { listen } from "./shortcuts.ts";

export function App({ gateway }: { gateway: Gateway }) {
  useEffect(() => listen(gateway), [gateway]);
  useEffect(() => {
    const wake = () => {
      if (!document.hidden) gateway.wake();
    };
    const leave = () => gateway.close();
    const restored = (event: PageTransitionEvent) => {
      if (event.persisted) location.reload();
    };
    addEventListener("online", wake);
    addEventListener("pagehide", leave);
    addEventListener("pageshow", restored);
    document.addEventListener("visibilitychange", wake);
    return () => {
      removeEventListener("online", wake);
      removeEventListener("pagehide", leave);
      removeEventListener("pageshow", restored);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [gateway]);
  return (
    <GatewayContext.Provider value={gateway}>
      <Page />
      <Help />
      <Spoken />
    </GatewayContext.Provider>
  );
}

function Page() {
  const gateway = useGateway();
  switch (gateway.phase.value) {
    case "starting":
      return (
        <main class="welcome">
          <img class="brand-mark" src="./icon.svg" alt="" width="56" height="56" />
          <p class="faint" role="status">
            Connecting…
          </p>
        </main>
      );
    case "login":
      return <Login />;
    case "failed":
      return (
        <main class="welcome">
          <h1>Could not connect</h1>
          {gateway.problem.value && <FaultView fault={gateway.problem.value} />}
          <button type="button" class="primary" onClick={() => void gateway.start(null)}>
            Try again
          </button>
        </main>
      );
    case "ready":
      return <Workplace />;
  }
}

function Workplace() {
  const at = route.value;
  return (
    <div class={`workplace at-${at.at}`}>
      {at.at === "session" && (
        <a class="skip" href="#prompt" onClick={skip}>
          To the prompt
        </a>
      )}
      <Sessions />
      <div class="stage">
        <Stage />
      </div>
    </div>
  );
}

/** The address behind `#` is the page's own, so the link does what it says by hand. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("prompt")?.focus();
}

function Stage() {
  const gateway = useGateway();
  const at = route.value;
  if (at.at === "new" && !gateway.readOnly.value) return <NewSession />;
  if (at.at === "inbox") return <Inbox />;
  if (at.at === "home" || at.at === "new") {
    return (
      <main class="empty">
        <h2>{gateway.readOnly.value ? "Choose a session to look on" : "Choose a session, or start a new one"}</h2>
        <p>
          <kbd>?</kbd> shows the keys.
        </p>
      </main>
    );
  }
  const { agent, sessionId } = at;
  const cwd = gateway.find(agent, sessionId)?.cwd;
  const known = gateway.known(agent, sessionId);
  const session = known ?? (cwd === undefined ? null : gateway.session({ agent, sessionId, cwd }));
  if (!session) {
    return (
      <main class="empty">
        <h2>There is no such session</h2>
        <p>It may have been deleted, or your token may not see it.</p>
      </main>
    );
  }
  return <SessionView key={`${agent}/${sessionId}`} session={session} />;
}

const PLACES = { home: "", new: "New session", inbox: "Inbox" } as const;

/** Said aloud by screen readers, and the count in the title of the tab. */
function Spoken() {
  const gateway = useGateway();
  const waiting = gateway.questions.value.length;
  const at = route.value;
  const name = at.at === "session" ? (gateway.find(at.agent, at.sessionId)?.title ?? "") : PLACES[at.at];
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${name ? `${visible(name).slice(0, 80)} · ` : ""}Accord`;
  }, [waiting, name]);
  return (
    <div class="unseen" role="status" aria-live="polite">
      {gateway.announcement.value}
    </div>
  );
}
