/** One session: header, conversation and footer. */
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { baseName } from "../text/format.ts";
import { AUTH_REQUIRED } from "../wire/extension-methods.ts";
import { ConversationView } from "./ConversationView.tsx";
import { ErrorView, Icon } from "./elements.tsx";
import { ReviewView } from "./ReviewView.tsx";
import { SessionFooter } from "./SessionFooter.tsx";
import { SessionMenu } from "./SessionMenu.tsx";
import { AgentSignIn } from "./SignIn.tsx";
import { WorktreeBar } from "./WorktreeBar.tsx";

export function SessionView({ session }: { session: Session }) {
  const gateway = useGateway();
  return (
    <main class="session">
      <SessionHeader session={session} />
      <WorktreeBar session={session} />
      {gateway.connectionState.value === "waiting" && (
        <p class="banner" role="status">
          {t("connection.lostBanner")}
        </p>
      )}
      {session.state.value === "failed" ? (
        <LoadError session={session} />
      ) : session.reviewing.value ? (
        <ReviewView session={session} />
      ) : (
        <>
          <ConversationView session={session} />
          <SessionFooter session={session} />
        </>
      )}
    </main>
  );
}

function LoadError({ session }: { session: Session }) {
  const gateway = useGateway();
  const error = session.error.value;
  const retry = () => void gateway.attach(session);
  return (
    <div class="empty-state">
      <h2>{t("session.openFailed")}</h2>
      {error && <ErrorView error={error} />}
      {error?.code === AUTH_REQUIRED && !gateway.readOnly.value && (
        <AgentSignIn agent={session.address.agent} onSuccess={retry} />
      )}
      <button type="button" onClick={retry}>
        {t("app.tryAgain")}
      </button>
    </div>
  );
}

function SessionHeader({ session }: { session: Session }) {
  const gateway = useGateway();
  const { agent, sessionId, cwd } = session.address;
  const listed = gateway.findListedSession(agent, sessionId);
  const title =
    listed?.title ?? session.conversation.value.title.value ?? (baseName(cwd) || t("app.untitledSession"));
  const clients = listed?.clients ?? 0;
  return (
    <header class="session-header">
      {gateway.sharedSession.value === null && (
        <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
      )}
      <div>
        <h2>{title}</h2>
        <p class="muted">
          {agent} · {listed?.node && t("session.atNode", { node: listed.node })}
          <span title={cwd}>{cwd}</span>
          {clients > 1 && t("session.clients", { count: clients })}
        </p>
      </div>
      {session.canReview() && (
        <button
          type="button"
          class="quiet small"
          aria-pressed={session.reviewing.value}
          onClick={() => (session.reviewing.value = !session.reviewing.value)}
        >
          <Icon name="review" /> <span class="header-label">{t("review.open")}</span>
        </button>
      )}
      {!gateway.readOnly.value && session.canRewind() && (
        <button type="button" class="quiet small" onClick={() => void session.openRewind()}>
          <Icon name="undo" /> <span class="header-label">{t("session.undo")}</span>
        </button>
      )}
      <SessionMenu session={session} />
    </header>
  );
}
