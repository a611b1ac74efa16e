/** Content blocks of messages and tool calls: text, pictures, sound, and resources by name. */
import type { Piece } from "../state/entries.ts";
import { isPicture, safeLink } from "../text/sanitise.ts";
import { forTerminal } from "../text/screen.ts";
import { Icon } from "./icons.tsx";
import { baseName } from "./format.ts";
import { Markdown } from "./Markdown.tsx";
import { Code } from "./Code.tsx";
import { Printed } from "./Printed.tsx";

const SOUNDS = ["audio/mpeg", "audio/wav", "audio/ogg", "audio/webm", "audio/mp4"];

export function Pieces({ pieces, growing = false }: { pieces: readonly Piece[]; growing?: boolean }) {
  return (
    <>
      {pieces.map((piece, index) => (
        <OnePiece key={index} piece={piece} growing={growing && index === pieces.length - 1} />
      ))}
    </>
  );
}

export function OnePiece({ piece, growing = false }: { piece: Piece; growing?: boolean }) {
  switch (piece.type) {
    case "text":
      return forTerminal(piece.text) ? <Printed output={piece.text} /> : <Markdown text={piece.text} growing={growing} />;
    case "image":
      return isPicture(`data:${piece.mimeType};base64,${piece.data}`) ? (
        <img class="picture" src={`data:${piece.mimeType};base64,${piece.data}`} alt="Picture in the conversation" />
      ) : (
        <p class="faint">A picture of a kind that is not shown here ({piece.mimeType}).</p>
      );
    case "audio":
      return <p class="faint">{SOUNDS.includes(piece.mimeType) ? "A recording" : "Sound"} ({piece.mimeType}), not played here.</p>;
    case "resource_link":
      return <Resource uri={piece.uri} name={piece.title ?? piece.name} />;
    case "resource":
      return "text" in piece.resource ? (
        <details class="fold">
          <summary>{piece.resource.uri}</summary>
          <Code text={piece.resource.text} language={piece.resource.uri.split(".").at(-1) ?? ""} />
        </details>
      ) : (
        <Resource uri={piece.resource.uri} name={piece.resource.uri} />
      );
    default:
      return null;
  }
}

function Resource({ uri, name }: { uri: string; name: string }) {
  const address = safeLink(uri);
  const label = (
    <>
      <Icon name="read" /> {baseName(name)}
    </>
  );
  return address && !address.startsWith("mailto:") ? (
    <a class="chip" href={address} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  ) : (
    <span class="chip" title={uri}>
      {label}
    </span>
  );
}
