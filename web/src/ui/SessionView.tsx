/** One session: header, conversation and footer. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { baseName } from "../text/format.ts";
import { AUTH_REQUIRED, errorReport } from "../wire/extension-methods.ts";
import { ConversationView } from "./ConversationView.tsx";
import { ErrorView, Icon } from "./elements.tsx";
import { navigate } from "./navigation.ts";
import { ReviewView } from "./ReviewView.tsx";
import { SessionFooter } from "./SessionFooter.tsx";
import { AgentSignIn } from "./SignIn.tsx";

export function SessionView({ session }: { session: Session }) {
  const gateway = useGateway();
  return (
    <main class="session">
      <SessionHeader session={session} />
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
    session.conversation.value.title.value ?? listed?.title ?? (baseName(cwd) || t("app.untitledSession"));
  const clients = listed?.clients ?? 0;
  const canDelete =
    !gateway.readOnly.value && listed && session.connection?.capabilities.sessionCapabilities?.delete;
  return (
    <header class="session-header">
      <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
        <Icon name="back" />
      </a>
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
      {canDelete && <DeleteButton session={session} />}
    </header>
  );
}

/** Deletes the session after a confirmation. */
function DeleteButton({ session }: { session: Session }) {
  const gateway = useGateway();
  const [confirming, setConfirming] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const remove = async () => {
    const listed = gateway.findListedSession(session.address.agent, session.address.sessionId);
    if (!listed) return;
    try {
      await gateway.deleteSession(listed);
      navigate({ page: "home" });
    } catch (reason) {
      setError(errorReport(reason).message);
    }
  };
  if (!confirming) {
    return (
      <button
        type="button"
        class="quiet round"
        aria-label={t("session.delete")}
        title={t("session.delete")}
        onClick={() => setConfirming(true)}
      >
        <Icon name="delete" />
      </button>
    );
  }
  return (
    <span class="confirmation" role="group" aria-label={t("session.deleteQuestion")}>
      {error ? <span class="error-text">{error}</span> : <span>{t("session.deleteQuestion")}</span>}
      <button type="button" class="small reject" onClick={() => void remove()}>
        {t("session.deleteConfirm")}
      </button>
      <button type="button" class="small" onClick={() => setConfirming(false)}>
        {t("session.deleteKeep")}
      </button>
    </span>
  );
}
