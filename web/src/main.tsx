/** The page's beginning: the token is taken out of the address before anything else happens. */
import { render } from "preact";
import { takeToken } from "./wire/door.ts";
import { Gateway } from "./state/gateway.ts";
import { showUnseen } from "./text/visible.ts";
import { App } from "./ui/App.tsx";
import "./styles/page.css";

const token = takeToken();
const gateway = new Gateway();
showUnseen();
const root = document.getElementById("page");
if (root) render(<App gateway={gateway} />, root);
void gateway.start(token);

// A pairing link that is opened in a tab that shows the page already loads nothing; its token must not stay in the address.
addEventListener("hashchange", () => {
  const another = takeToken();
  if (another !== null) void gateway.start(another);
});
