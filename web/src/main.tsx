/** Starts the page. Removes the token from the address before it does anything else. */
import { render } from "preact";
import { chooseLanguage } from "./messages/messages.ts";
import { followNotifications } from "./state/device-notifications.ts";
import { Gateway } from "./state/gateway.ts";
import { revealHiddenEverywhere } from "./text/untrusted-text.ts";
import { App } from "./ui/App.tsx";
import { takeShareToken, takeToken } from "./wire/browser-login.ts";
import "./styles/index.css";

const shared = takeShareToken() !== null;
const token = takeToken();
const gateway = new Gateway();
revealHiddenEverywhere();
const root = document.getElementById("page");
if (root) render(<App gateway={gateway} />, root);
void chooseLanguage();
followNotifications();
void gateway.start(token);

// The page can be installed, and opens without a connection. Browsers allow that only over TLS and on loopback.
if (import.meta.env.PROD && "serviceWorker" in navigator)
  navigator.serviceWorker.register("./service-worker.js").catch(() => undefined);

// A pairing link that is opened in a tab of this page changes only the hash. Remove its token from the
// address, too.
addEventListener("hashchange", () => {
  if (shared || location.hash.startsWith("#share=")) location.reload();
  const newToken = takeToken();
  if (newToken !== null) void gateway.start(newToken);
});
