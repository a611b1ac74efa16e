/** The page's beginning: the token is taken out of the address before anything else happens. */
import { render } from "preact";
import { takeToken } from "./wire/door.ts";
import { Gateway } from "./state/gateway.ts";
import { App } from "./ui/App.tsx";
import "./styles/page.css";

const token = takeToken();
const gateway = new Gateway();
const root = document.getElementById("page");
if (root) render(<App gateway={gateway} />, root);
void gateway.start(token);
