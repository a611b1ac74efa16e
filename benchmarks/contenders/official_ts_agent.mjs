// The benchmark agent on the official TypeScript SDK. Each prompt is a job as JSON; see workloads.py.
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setImmediate as nextIteration, setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// The driver passes the path of the SDK, which is installed for the tests.
const acp = await import(pathToFileURL(process.env.ACP_TS_SDK).href);

const FIXED = "The quick brown fox jumps over the dog. ";
const LINE = 'def answer(question: str) -> str:  # "forty-two"\n';
const folders = new Map();
const update = acp.methods.client.session.update;

const stamp = () => String(process.hrtime.bigint()).padEnd(40);

function text(job, number) {
  if (job.text === "stamp") return stamp();
  if (job.text === "number") return String(number);
  return FIXED;
}

function say(client, sessionId, text) {
  return client.notify(update, {
    sessionId,
    update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
  });
}

async function stream(client, sessionId, job) {
  let last;
  for (let number = 0; number < job.count; number++) {
    last = say(client, sessionId, text(job, number));
    if (job.awaited) await last;
    if (job.pause === 0) await nextIteration();
    else if (job.pause) await sleep(job.pause * 1000);
  }
  await last;
}

async function read(client, sessionId, job) {
  const path = join(folders.get(sessionId), "notes.txt");
  const times = [];
  for (let number = 0; number < job.count; number++) {
    const began = process.hrtime.bigint();
    await client.request(acp.methods.client.fs.readTextFile, { sessionId, path });
    times.push(Number(process.hrtime.bigint() - began));
  }
  await say(client, sessionId, JSON.stringify(times));
}

async function prompt({ params, client }) {
  const { sessionId } = params;
  const job = JSON.parse(params.prompt[0].text);
  if (job.do === "stream") {
    await stream(client, sessionId, job);
  } else if (job.do === "read") {
    await read(client, sessionId, job);
  } else if (job.do === "diff") {
    const half = LINE.repeat(Math.floor(job.size / 2 / LINE.length));
    await say(client, sessionId, stamp());
    await client.notify(update, {
      sessionId,
      update: {
        sessionUpdate: "tool_call",
        toolCallId: "edit-1",
        title: "Edit",
        kind: "edit",
        content: [{ type: "diff", path: "/project/answer.py", oldText: half, newText: half }],
      },
    });
  } else if (job.do === "text") {
    const lines = LINE.repeat(Math.floor(job.size / LINE.length));
    await say(client, sessionId, stamp());
    await say(client, sessionId, lines);
  }
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "official-typescript" })
  .onRequest(acp.methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "official-typescript", version: "1" },
  }))
  .onRequest(acp.methods.agent.session.new, ({ params }) => {
    const sessionId = `session-${folders.size}`;
    folders.set(sessionId, params.cwd);
    return { sessionId };
  })
  .onRequest(acp.methods.agent.session.prompt, prompt)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
