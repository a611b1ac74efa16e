/** An agent's ways to sign in, as buttons; those that need a terminal are named with the command that does it. */
import type * as acp from "@agentclientprotocol/sdk";
import { useEffect, useState } from "preact/hooks";
import { asError, type Fault } from "../state/faults.ts";
import { useGateway } from "./context.ts";
import { FaultView } from "./FaultView.tsx";

export function SignIn({ agent, done }: { agent: string; done: () => void }) {
  const gateway = useGateway();
  const [methods, setMethods] = useState<readonly acp.AuthMethod[] | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Fault | null>(null);
  useEffect(() => {
    let current = true;
    void gateway
      .methods(agent)
      .catch(() => [])
      .then((all) => {
        if (current) setMethods(all.filter((method) => !("type" in method) || method.type !== "terminal"));
      });
    return () => {
      current = false;
    };
  }, [agent]);
  const sign = async (method: acp.AuthMethod) => {
    setBusy(true);
    setProblem(null);
    try {
      await gateway.authenticate(agent, method.id);
      done();
    } catch (error) {
      setProblem(asError(error));
    } finally {
      setBusy(false);
    }
  };
  if (methods === null) return null;
  return (
    <div class="sign-in" role="group" aria-label={`Sign in to ${agent}`}>
      {methods.length === 0 && (
        <p>
          It names no way to sign in from here. On the gateway's machine, <code>accord agents login {agent}</code> may know one.
        </p>
      )}
      <div class="choices">
        {methods.map((method) => (
          <button type="button" key={method.id} disabled={busy} title={method.description ?? undefined} onClick={() => void sign(method)}>
            {method.name}
          </button>
        ))}
      </div>
      {problem && <FaultView fault={problem} before="That did not work: " />}
    </div>
  );
}
