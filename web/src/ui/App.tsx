/**
 * The whole page: connecting, login, or the session list next to a session, the inbox or the new session
 * form.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { showBadge } from "../state/device-notifications.ts";
import { GatewayContext, useGateway, type Gateway } from "../state/gateway.ts";
import { revealHidden } from "../text/untrusted-text.ts";
import { ErrorView } from "./elements.tsx";
import { Inbox } from "./Inbox.tsx";
import { helpOpen, installShortcuts, route, SHORTCUTS } from "./navigation.ts";
import { NewSession } from "./NewSession.tsx";
import { CommandPalette } from "./CommandPalette.tsx";
import { Home } from "./Home.tsx";
import { Settings } from "./Settings.tsx";
import { SessionList } from "./SessionList.tsx";
import { SessionView } from "./SessionView.tsx";
import { LoginPage } from "./SignIn.tsx";

export function App({ gateway }: { gateway: Gateway }) {
  useEffect(() => installShortcuts(gateway), [gateway]);
  useEffect(() => {
    const check = () => {
      if (!document.hidden) gateway.checkConnections();
    };
    const close = () => gateway.close();
    const reload = (event: PageTransitionEvent) => {
      if (event.persisted) location.reload();
    };
    addEventListener("online", check);
    addEventListener("pagehide", close);
    addEventListener("pageshow", reload);
    document.addEventListener("visibilitychange", check);
    return () => {
      removeEventListener("online", check);
      removeEventListener("pagehide", close);
      removeEventListener("pageshow", reload);
      document.removeEventListener("visibilitychange", check);
    };
  }, [gateway]);
  return (
    <GatewayContext.Provider value={gateway}>
      <Page />
      <HelpDialog />
      <CommandPalette />
      <PageStatus />
    </GatewayContext.Provider>
  );
}

function Page() {
  const gateway = useGateway();
  switch (gateway.phase.value) {
    case "starting":
      return (
        <main class="start-page">
          <img src="./icon.svg" alt="" width="56" height="56" />
          <p class="muted" role="status">
            {t("app.connecting")}
          </p>
        </main>
      );
    case "login":
      return <LoginPage />;
    case "failed":
      return (
        <main class="start-page">
          <h1>{t("app.connectFailed")}</h1>
          {gateway.error.value && <ErrorView error={gateway.error.value} />}
          <button type="button" class="primary" onClick={() => void gateway.start(null)}>
            {t("app.tryAgain")}
          </button>
        </main>
      );
    case "ready":
      return <Workspace />;
  }
}

function Workspace() {
  const { page } = route.value;
  const shared = useGateway().sharedSession.value;
  if (shared !== null) return <SharedSession sessionId={shared} />;
  return (
    <div class={`workspace route-${page}`}>
      {page === "session" && (
        <a class="skip-link" href="#prompt" onClick={focusPrompt}>
          {t("app.skipToPrompt")}
        </a>
      )}
      <SessionList />
      <div class="main-pane">
        <MainPane />
      </div>
    </div>
  );
}

/** The session of a share link, and nothing else. */
function SharedSession({ sessionId }: { sessionId: string }) {
  const listed = useGateway().sessions.value.find((item) => item.sessionId === sessionId);
  return (
    <div class="workspace shared">
      <div class="main-pane">
        {listed ? (
          <SessionPane agent={listed.agent} sessionId={sessionId} />
        ) : (
          <main class="empty-state">
            <h2>{t("session.notFound")}</h2>
            <p>{t("share.gone")}</p>
          </main>
        )}
      </div>
    </div>
  );
}

/** The page uses the part of the address after `#` for its routes, so the skip link cannot. */
function focusPrompt(event: Event): void {
  event.preventDefault();
  document.getElementById("prompt")?.focus();
}

function MainPane() {
  const gateway = useGateway();
  const current = route.value;
  if (current.page === "new" && !gateway.readOnly.value)
    return <NewSession key={current.folder} folder={current.folder ?? ""} />;
  if (current.page === "settings") return <Settings />;
  if (current.page === "inbox") return <Inbox request={current.request} />;
  if (current.page === "home" || current.page === "new") return <Home />;
  return <SessionPane key={`${current.agent}/${current.sessionId}`} {...current} />;
}

function SessionPane({ agent, sessionId }: { agent: string; sessionId: string }) {
  const gateway = useGateway();
  const cwd = gateway.findListedSession(agent, sessionId)?.cwd;
  const session =
    gateway.findOpenSession(agent, sessionId) ??
    (cwd === undefined ? null : gateway.openSession({ agent, sessionId, cwd }));
  const isListed = session !== null;
  const [searching, setSearching] = useState(!isListed && gateway.moreSessions.value !== null);
  useEffect(() => {
    if (isListed) return;
    void gateway.findSession(agent, sessionId).finally(() => setSearching(false));
  }, [gateway, agent, sessionId, isListed]);
  if (session) return <SessionView session={session} />;
  if (searching) {
    return (
      <main class="empty-state">
        <p role="status">{t("session.searching")}</p>
      </main>
    );
  }
  return (
    <main class="empty-state">
      <h2>{t("session.notFound")}</h2>
      <p>{t("session.notFoundReason")}</p>
    </main>
  );
}

/** The keyboard shortcuts, in a native dialog, which traps the focus and restores it. */
function HelpDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
  }, [helpOpen.value]);
  if (!helpOpen.value) return null;
  const close = () => {
    helpOpen.value = false;
  };
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={close}>
      <h2 id="help-title">{t("shortcuts.title")}</h2>
      <dl>
        {SHORTCUTS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{t(meaning)}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        {t("app.close")}
      </button>
    </dialog>
  );
}

const PAGE_TITLES = { new: "sessions.new", inbox: "inbox.title", settings: "settings.title" } as const;

/** The title of the tab, with the number of pending requests, and announcements for screen readers. */
function PageStatus() {
  const gateway = useGateway();
  const pending = gateway.requests.value.length;
  const current = route.value;
  const name =
    current.page === "session"
      ? (gateway.findListedSession(current.agent, current.sessionId)?.title ?? "")
      : current.page === "home"
        ? ""
        : t(PAGE_TITLES[current.page]);
  const isReady = gateway.phase.value === "ready";
  useEffect(() => {
    if (isReady) showBadge(pending);
  }, [isReady, pending]);
  useEffect(() => {
    const count = pending > 0 ? `(${pending}) ` : "";
    document.title = `${count}${name ? `${revealHidden(name).slice(0, 80)} · ` : ""}${t("app.name")}`;
  }, [pending, name]);
  return (
    <div class="visually-hidden" role="status" aria-live="polite">
      {gateway.announcement.value}
    </div>
  );
}
