/** What an agent waits for: permissions and forms, asked on our connection or listed in the inbox. */
import type * as acp from "@agentclientprotocol/sdk";
import { record, type InboxItem } from "../wire/vendor.ts";

export type PermissionParams = acp.RequestPermissionRequest;
export type ElicitationParams = acp.CreateElicitationRequest;

interface Common {
  /** The same for the request on the connection and the item in the inbox, so that both are one card. */
  key: string;
  agent: string;
  sessionId: string;
  since: number;
  answer(result: unknown): Promise<void>;
}

export interface PermissionQuestion extends Common {
  kind: "permission";
  params: PermissionParams;
}

export interface ElicitationQuestion extends Common {
  kind: "elicitation";
  params: ElicitationParams;
}

export interface OtherQuestion extends Common {
  kind: "other";
  method: string;
  params: Record<string, unknown>;
}

export type Question = PermissionQuestion | ElicitationQuestion | OtherQuestion;

export function questionKey(method: string, sessionId: string, params: Record<string, unknown>): string {
  const call = record(params["toolCall"])["toolCallId"] ?? params["elicitationId"] ?? params["toolCallId"];
  return JSON.stringify([method, sessionId, call ?? null, params["message"] ?? params["question"] ?? null]);
}

export function fromInbox(item: InboxItem, answer: (result: unknown) => Promise<void>): Question {
  const base = {
    key: questionKey(item.method, item.sessionId, item.params),
    agent: item.agent,
    sessionId: item.sessionId,
    since: item.since ? Date.parse(item.since) || Date.now() : Date.now(),
    answer,
  };
  if (item.method === "session/request_permission" && Array.isArray(item.params["options"])) {
    return { ...base, kind: "permission", params: item.params as unknown as PermissionParams };
  }
  if (item.method === "elicitation/create" && typeof item.params["mode"] === "string") {
    return { ...base, kind: "elicitation", params: item.params as unknown as ElicitationParams };
  }
  return { ...base, kind: "other", method: item.method, params: item.params };
}

/** In one line, for lists, notifications and screen readers. */
export function summary(question: Question): string {
  if (question.kind === "permission") {
    return question.params.toolCall.title || "wants to use a tool";
  }
  if (question.kind === "elicitation") return question.params.message;
  const said = question.params["question"] ?? question.params["message"];
  return typeof said === "string" ? said : question.method;
}
