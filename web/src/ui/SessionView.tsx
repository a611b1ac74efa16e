/** One session: header, conversation and footer. */
import { useState } from "preact/hooks";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { baseName } from "../text/format.ts";
import { AUTH_REQUIRED, errorReport } from "../wire/extension-methods.ts";
import { ConversationView } from "./ConversationView.tsx";
import { ErrorView, Icon } from "./elements.tsx";
import { navigate } from "./navigation.ts";
import { SessionFooter } from "./SessionFooter.tsx";
import { AgentSignIn } from "./SignIn.tsx";

export function SessionView({ session }: { session: Session }) {
  const gateway = useGateway();
  return (
    <main class="session">
      <SessionHeader session={session} />
      {gateway.connectionState.value === "waiting" && (
        <p class="banner" role="status">
          The connection was lost. Reconnecting… Your unsent text is kept.
        </p>
      )}
      {session.state.value === "failed" ? (
        <LoadError session={session} />
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
      <h2>This session could not be opened</h2>
      {error && <ErrorView error={error} />}
      {error?.code === AUTH_REQUIRED && !gateway.readOnly.value && (
        <AgentSignIn agent={session.address.agent} onSuccess={retry} />
      )}
      <button type="button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}

function SessionHeader({ session }: { session: Session }) {
  const gateway = useGateway();
  const { agent, sessionId, cwd } = session.address;
  const listed = gateway.findListedSession(agent, sessionId);
  const title = session.conversation.value.title.value ?? listed?.title ?? (baseName(cwd) || "Session");
  const canDelete =
    !gateway.readOnly.value && listed && session.connection?.capabilities.sessionCapabilities?.delete;
  return (
    <header class="session-header">
      <a class="button quiet round phone-only" href="#/" aria-label="Back to the sessions">
        <Icon name="back" />
      </a>
      <div>
        <h2>{title}</h2>
        <p class="muted">
          {agent} · {listed?.node && `at ${listed.node} · `}
          <span title={cwd}>{cwd}</span>
          {(listed?.clients ?? 0) > 1 && ` · ${listed?.clients} clients`}
        </p>
      </div>
      {!gateway.readOnly.value && session.canRewind() && (
        <button type="button" class="quiet small" onClick={() => void session.openRewind()}>
          Undo
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
        aria-label="Delete this session"
        title="Delete this session"
        onClick={() => setConfirming(true)}
      >
        <Icon name="delete" />
      </button>
    );
  }
  return (
    <span class="confirmation" role="group" aria-label="Delete this session?">
      {error ? <span class="error-text">{error}</span> : <span>Delete this session?</span>}
      <button type="button" class="small reject" onClick={() => void remove()}>
        Delete
      </button>
      <button type="button" class="small" onClick={() => setConfirming(false)}>
        Keep
      </button>
    </span>
  );
}
