// The official TypeScript SDK as installed for the tests.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(new URL("../../node/package.json", import.meta.url));

export const official = (name) => import(pathToFileURL(installed.resolve(name)).href);
export const acp = await official("@agentclientprotocol/sdk");
