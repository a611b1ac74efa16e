// The benchmark client on the official TypeScript SDK: runs one workload and prints its figures as JSON.
import { spawn } from "node:child_process";
import { readSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { setImmediate as nextIteration } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(process.env.ACP_TS_SDK).href);

const workload = JSON.parse(process.argv[2]);
const [command, ...commandArguments] = process.argv.slice(3);
const job = JSON.stringify(workload.job);
const perTurn = workload.job.count ?? 1;
const warmUp =
  workload.measure === "requests"
    ? { do: "read", count: 50, updates: 1 }
    : { do: "stream", count: 50, awaited: true, text: "fixed", updates: 50 };

let updates = 0;
let characters = 0;
let lags = [];
let numbers = [];
let sent;
let awaiting = false;
let target = { count: Infinity, reached() {} };

const now = () => process.hrtime.bigint();

// What the application does with each text; it only counts during the warm-up.
function count(text) {
  updates += 1;
  characters += text.length;
}
function stamped(text) {
  updates += 1;
  lags.push(Number(now() - BigInt(text.trim())));
}
function numbered(text) {
  updates += 1;
  numbers.push(Number(text));
}
function large(text) {
  if (sent === undefined) {
    sent = BigInt(text.trim());
  } else {
    updates += 1;
    characters += text.length;
    lags.push(Number(now() - sent));
  }
}
function reads(text) {
  lags = JSON.parse(text);
  updates += lags.length;
}
let received = count;

function take(text) {
  received(text);
  if (updates >= target.count) target.reached();
}

async function onUpdate({ params: { update } }) {
  if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
    if (awaiting) for (let wait = Number(update.content.text) % 3; wait > 0; wait--) await nextIteration();
    take(update.content.text);
  } else if (update.sessionUpdate === "tool_call") {
    for (const item of update.content ?? []) if (item.type === "diff") take(item.newText);
  }
}

// Send a mark to the driver and wait until it has read processor time and memory.
function mark(name) {
  writeSync(1, JSON.stringify({ mark: name }) + "\n");
  readSync(0, Buffer.alloc(16));
}

function start() {
  updates = 0;
  received = { sessions: stamped, message: large, order: numbered, requests: reads }[workload.measure] ?? count;
  mark("start");
  return performance.now();
}

function stop(began) {
  const seconds = (performance.now() - began) / 1000;
  mark("stop");
  return seconds;
}

function percentile(values, share) {
  const ordered = Float64Array.from(values).sort();
  return ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * share))] / 1e9;
}

// The SDK may resolve a prompt before the last updates are handled: wait for both.
async function all(expected, work) {
  const handled = new Promise((resolve) => (target = { count: expected, reached: resolve }));
  await work();
  await handled;
}

async function run(agent) {
  const { session, initialize } = acp.methods.agent;
  const newSession = async () => (await agent.request(session.new, { cwd: workload.folder, mcpServers: [] })).sessionId;
  const prompt = (sessionId, text) =>
    agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });

  const clientCapabilities = { fs: { readTextFile: true } };
  await agent.request(initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities });
  const sessionId = await newSession();
  await all(warmUp.updates, () => prompt(sessionId, JSON.stringify(warmUp)));

  const figures = {};
  if (workload.measure === "sessions") {
    const ids = [];
    for (let n = 0; n < workload.repeat; n++) ids.push(await newSession());
    const began = start();
    await all(perTurn * workload.repeat, () => Promise.all(ids.map((id) => prompt(id, job))));
    figures.seconds = stop(began);
  } else if (workload.measure === "order") {
    figures.disordered = figures.incomplete = 0;
    awaiting = true;
    const began = start();
    for (let turn = 1; turn <= workload.repeat; turn++) {
      numbers = [];
      await all(perTurn * turn, async () => {
        await prompt(sessionId, job);
        figures.incomplete += Number(numbers.length !== perTurn);
      });
      figures.disordered += Number(numbers.some((number, place) => number !== place));
    }
    figures.seconds = stop(began);
  } else {
    const began = start();
    await all(perTurn, () => prompt(sessionId, job));
    figures.seconds = stop(began);
  }
  if (lags.length) {
    figures.p50 = percentile(lags, 0.5);
    figures.p99 = percentile(lags, 0.99);
  }
  writeSync(1, JSON.stringify({ figures }) + "\n");
}

const child = spawn(command, commandArguments, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await acp
  .client({ name: "benchmark" })
  .onNotification(acp.methods.client.session.update, onUpdate)
  .onRequest(acp.methods.client.fs.readTextFile, async ({ params }) => ({
    content: await readFile(params.path, "utf8"),
  }))
  .connectWith(stream, run);
child.stdin.end();
