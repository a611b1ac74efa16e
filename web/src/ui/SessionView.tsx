/** One session: its head, its conversation, what it asks, and the prompt. */
import { useState } from "preact/hooks";
import { asError, AUTH_REQUIRED } from "../state/faults.ts";
import type { Session } from "../state/session.ts";
import { Composer } from "./Composer.tsx";
import { useGateway } from "./context.ts";
import { Dock } from "./Dock.tsx";
import { FaultView } from "./FaultView.tsx";
import { baseName } from "./format.ts";
import { Icon } from "./icons.tsx";
import { Log } from "./Log.tsx";
import { Options } from "./Options.tsx";
import { go } from "./route.ts";
import { SignIn } from "./SignIn.tsx";

export function SessionView({ session }: { session: Session }) {
  const gateway = useGateway();
  const problem = session.problem.value;
  return (
    <main class="session">
      <Head session={session} />
      {gateway.line.value === "waiting" && (
        <p class="banner" role="status">
          The connection was lost. Reconnecting; nothing is lost meanwhile.
        </p>
      )}
      {session.state.value === "failed" ? (
        <div class="empty">
          <h2>This session could not be opened</h2>
          {problem && <FaultView fault={problem} />}
          {problem?.code === AUTH_REQUIRED && !gateway.readOnly.value && <SignIn agent={session.address.agent} done={() => void gateway.attach(session)} />}
          <button type="button" onClick={() => void gateway.attach(session)}>
            Try again
          </button>
        </div>
      ) : (
        <>
          <Log session={session} />
          <div class="dock">
            <Dock session={session} />
            {gateway.readOnly.value ? <p class="faint centre">Your token lets you look on, not take part.</p> : <Composer session={session} />}
            <Options session={session} />
          </div>
        </>
      )}
    </main>
  );
}

function Head({ session }: { session: Session }) {
  const gateway = useGateway();
  const { agent, sessionId, cwd } = session.address;
  const listed = gateway.find(agent, sessionId);
  const title = session.conversation.value.title.value ?? listed?.title ?? (baseName(cwd) || "Session");
  return (
    <header class="session-head">
      <a class="button quiet round phone" href="#/" aria-label="Back to the sessions">
        <Icon name="back" />
      </a>
      <div>
        <h2>{title}</h2>
        <p class="faint">
          {agent} · <span title={cwd}>{cwd}</span>
          {(listed?.clients ?? 0) > 1 && ` · ${listed?.clients} clients`}
        </p>
      </div>
      {!gateway.readOnly.value && session.connection?.capabilities.sessionCapabilities?.delete && listed && <Delete session={session} />}
    </header>
  );
}

function Delete({ session }: { session: Session }) {
  const gateway = useGateway();
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const remove = async () => {
    const listed = gateway.find(session.address.agent, session.address.sessionId);
    if (!listed) return;
    try {
      await gateway.remove(listed);
      go({ at: "home" });
    } catch (error) {
      setProblem(asError(error).message);
    }
  };
  if (!sure) {
    return (
      <button type="button" class="quiet round" aria-label="Delete this session" title="Delete this session" onClick={() => setSure(true)}>
        <Icon name="delete" />
      </button>
    );
  }
  return (
    <span class="sure" role="group" aria-label="Delete this session?">
      {problem ? <span class="fault">{problem}</span> : <span>Delete?</span>}
      <button type="button" class="small reject" onClick={() => void remove()}>
        Delete
      </button>
      <button type="button" class="small" onClick={() => setSure(false)}>
        Keep
      </button>
    </span>
  );
}
