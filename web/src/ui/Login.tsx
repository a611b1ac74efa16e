/** The way in: a token, pasted. A pairing link brings its own and never shows this. */
import { useState } from "preact/hooks";
import { useGateway } from "./context.ts";

export function Login() {
  const gateway = useGateway();
  const [token, setToken] = useState("");
  const problem = gateway.problem.value;
  return (
    <main class="welcome">
      <img class="brand-mark" src="./icon.svg" alt="" width="56" height="56" />
      <h1>Accord</h1>
      <p>Open the link that <code>accord serve</code> printed, or paste a token. <code>accord serve token new</code> makes one.</p>
      <form
        class="login"
        onSubmit={(event) => {
          event.preventDefault();
          const value = token.trim().replace(/^.*#token=/, "");
          if (value) void gateway.start(value);
        }}
      >
        <label for="token">Token or pairing link</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          autofocus
          value={token}
          aria-invalid={problem !== null}
          aria-describedby={problem ? "login-problem" : undefined}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {problem && (
          <p id="login-problem" class="fault" role="alert">
            {problem.message}.
          </p>
        )}
        <button class="primary" type="submit" disabled={token.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
