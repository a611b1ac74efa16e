/** What a tool call shows: content, diffs, terminals; its raw input and output where it shows nothing else. */
import type * as acp from "@agentclientprotocol/sdk";
import type { Piece } from "../state/entries.ts";
import type { Session } from "../state/session.ts";
import { Code } from "./Code.tsx";
import { Diff } from "./Diff.tsx";
import { OnePiece } from "./Pieces.tsx";
import { TerminalView } from "./TerminalView.tsx";

interface Properties {
  session: Session;
  content: readonly acp.ToolCallContent[];
  running: boolean;
  rawInput?: unknown;
  rawOutput?: unknown;
}

export function ToolContent({ session, content, running, rawInput, rawOutput }: Properties) {
  return (
    <>
      {content.map((item, index) => {
        if (item.type === "diff") {
          return <Diff key={index} path={item.path} oldText={item.oldText ?? null} newText={item.newText} cwd={session.address.cwd} />;
        }
        if (item.type === "terminal") return <TerminalView key={item.terminalId} session={session} terminalId={item.terminalId} running={running} />;
        return <OnePiece key={index} piece={item.content as Piece} />;
      })}
      {rawInput !== undefined && <Raw name="Input" value={rawInput} open={content.length === 0} />}
      {rawOutput !== undefined && content.length === 0 && <Raw name="Output" value={rawOutput} open />}
    </>
  );
}

function Raw({ name, value, open }: { name: string; value: unknown; open: boolean }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <details class="fold" open={open}>
      <summary>{name}</summary>
      <Code text={text.slice(0, 100_000)} language={typeof value === "string" ? "" : "json"} />
    </details>
  );
}
