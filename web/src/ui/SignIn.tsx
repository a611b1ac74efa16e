/** Signing in: the page's login with a token, and the sign-in methods of an agent. */
import type * as acp from "@agentclientprotocol/sdk";
import { useEffect, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { errorReport, type ErrorReport } from "../wire/extension-methods.ts";
import { ErrorText, ErrorView } from "./elements.tsx";
import { RichText } from "./RichText.tsx";

/** Asks for a token. A user who opens a pairing link does not see this page. */
export function LoginPage() {
  const gateway = useGateway();
  const [token, setToken] = useState("");
  const error = gateway.error.value;
  return (
    <main class="start-page">
      <img src="./icon.svg" alt="" width="56" height="56" />
      <h1>{t("app.name")}</h1>
      <p>
        <RichText message="login.instructions" />
      </p>
      <form
        class="login"
        onSubmit={(event) => {
          event.preventDefault();
          const value = token.trim().replace(/^.*#token=/, "");
          if (value) void gateway.start(value);
        }}
      >
        <label for="token">{t("login.token")}</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          autofocus
          value={token}
          aria-invalid={error !== null}
          aria-describedby={error ? "login-error" : undefined}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {error && <ErrorText id="login-error">{error.message}.</ErrorText>}
        <button class="primary" type="submit" disabled={token.trim() === ""}>
          {t("login.signIn")}
        </button>
      </form>
    </main>
  );
}

/** The sign-in methods of an agent as buttons, without those that need a terminal. */
export function AgentSignIn({ agent, onSuccess }: { agent: string; onSuccess: () => void }) {
  const gateway = useGateway();
  const [methods, setMethods] = useState<readonly acp.AuthMethod[] | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ErrorReport | null>(null);
  useEffect(() => {
    let current = true;
    void gateway
      .authMethods(agent)
      .catch(() => [])
      .then((all) => {
        if (current) setMethods(all.filter((method) => !("type" in method) || method.type !== "terminal"));
      });
    return () => {
      current = false;
    };
  }, [agent]);
  const signIn = async (method: acp.AuthMethod) => {
    setBusy(true);
    setError(null);
    try {
      await gateway.authenticate(agent, method.id);
      onSuccess();
    } catch (reason) {
      setError(errorReport(reason));
    } finally {
      setBusy(false);
    }
  };
  if (methods === null) return null;
  return (
    <div class="sign-in" role="group" aria-label={t("agentLogin.label", { agent })}>
      {methods.length === 0 && (
        <p>
          <RichText message="agentLogin.terminalOnly" values={{ agent }} />
        </p>
      )}
      <div class="button-row">
        {methods.map((method) => (
          <button
            type="button"
            key={method.id}
            disabled={busy}
            title={method.description ?? undefined}
            onClick={() => void signIn(method)}
          >
            {method.name}
          </button>
        ))}
      </div>
      {error && <ErrorView error={error} prefix={t("agentLogin.failed")} />}
    </div>
  );
}
