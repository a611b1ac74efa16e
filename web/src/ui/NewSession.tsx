/** A new session: which agent, in which folder. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Folders, ListedAgent } from "../wire/vendor.ts";
import { asError, AUTH_REQUIRED, type Fault } from "../state/faults.ts";
import { useGateway } from "./context.ts";
import { baseName } from "./format.ts";
import { FaultView } from "./FaultView.tsx";
import { Icon } from "./icons.tsx";
import { touch } from "./media.ts";
import { SignIn } from "./SignIn.tsx";
import { go } from "./route.ts";

export function NewSession() {
  const gateway = useGateway();
  const agents = gateway.agents.value;
  const [agent, setAgent] = useState(() => (agents.find((one) => one.default) ?? agents[0])?.name ?? "");
  const [cwd, setCwd] = useState(() => gateway.listed.value[0]?.cwd ?? "");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Fault | null>(null);
  const begin = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const session = await gateway.begin(agent, cwd.trim());
      go({ at: "session", agent: session.address.agent, sessionId: session.address.sessionId });
    } catch (error) {
      setProblem(asError(error));
    } finally {
      setBusy(false);
    }
  };
  const sheet = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!touch()) sheet.current?.querySelector<HTMLElement>(":checked, #folder")?.focus();
  }, []);
  // What went wrong with one agent says nothing about another.
  const choose = (name: string) => {
    setAgent(name);
    setProblem(null);
  };
  return (
    <main class="sheet" ref={sheet}>
      <header class="sheet-head">
        <a class="button quiet round phone" href="#/" aria-label="Back to the sessions">
          <Icon name="back" />
        </a>
        <h2>New session</h2>
      </header>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (agent && cwd.trim() && !busy) void begin();
        }}
      >
        <fieldset class="agents">
          <legend>Agent</legend>
          {agents.map((one) => (
            <AgentChoice key={one.name} agent={one} chosen={one.name === agent} choose={() => choose(one.name)} />
          ))}
        </fieldset>
        <div class="field">
          <label for="folder">Folder</label>
          <input id="folder" type="text" value={cwd} spellcheck={false} autocomplete="off" onInput={(event) => setCwd(event.currentTarget.value)} />
        </div>
        <FolderPicker path={cwd} choose={setCwd} />
        {problem && <FaultView fault={problem} before="The session could not be started: " />}
        {problem?.code === AUTH_REQUIRED && <SignIn key={agent} agent={agent} done={() => void begin()} />}
        <div class="choices">
          <button type="submit" class="primary" disabled={busy || !agent || cwd.trim() === ""}>
            {busy ? "Starting…" : "Start"}
          </button>
        </div>
      </form>
    </main>
  );
}

function AgentChoice({ agent, chosen, choose }: { agent: ListedAgent; chosen: boolean; choose: () => void }) {
  return (
    <label class="agent-choice">
      <input type="radio" name="agent" checked={chosen} onChange={choose} />
      <span>
        <strong>{agent.title ?? agent.name}</strong>
        {agent.description && <span class="faint">{agent.description}</span>}
        {agent.state === "failed" && <span class="fault">{agent.reason ?? "It could not be started."}</span>}
      </span>
    </label>
  );
}

/** Folders as the gateway shows them; typing in the field above looks there, too. */
function FolderPicker({ path, choose }: { path: string; choose: (path: string | ((before: string) => string)) => void }) {
  const gateway = useGateway();
  const [shown, setShown] = useState<Folders | null>(null);
  const [problem, setProblem] = useState(false);
  const first = useRef(true);
  useEffect(() => {
    let current = true;
    const look = async () => {
      try {
        const found = await gateway.folders(path === "" ? null : path);
        if (!current) return;
        setShown(found);
        setProblem(false);
        // Somebody may have typed meanwhile.
        if (path === "" && first.current) choose((before) => before || found.path);
        first.current = false;
      } catch {
        if (current) setProblem(true);
      }
    };
    const id = setTimeout(() => void look(), path === "" ? 0 : 150);
    return () => {
      current = false;
      clearTimeout(id);
    };
  }, [path]);
  if (shown === null) return null;
  return (
    <div class="folders" role="group" aria-label={`Folders in ${shown.path}`}>
      {problem && <p class="faint">There is no such folder, or it may not be looked into.</p>}
      <ul>
        {shown.parent && (
          <li>
            <button type="button" class="quiet" onClick={() => choose(shown.parent ?? "/")}>
              <Icon name="back" /> {baseName(shown.parent) || "/"}
              <span class="unseen"> (up)</span>
            </button>
          </li>
        )}
        {shown.folders.map((folder) => (
          <li key={folder.path}>
            <button type="button" class="quiet" onClick={() => choose(folder.path)}>
              <Icon name="folder" /> {folder.name}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
