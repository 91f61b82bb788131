// Checks the routes whose responses never end: a client connects first, then both organisations send a record, the other organisation
// first.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Answer } from "../../fixtures/processes.ts";
import { type Party, sendRecord, type Served } from "./parties.ts";

const WITHIN_MS = 90_000;

/** The parties whose data would be a leak; set before the first test, because a follower must make the other organisation send. */
let others: ReadonlyMap<Party, Party> = new Map();
export function setParties([red, blue]: readonly [Party, Party]): void {
  others = new Map([
    [red, blue],
    [blue, red],
  ]);
}

async function sendBoth(served: Served, asker: Party): Promise<string> {
  const last = `${asker.word} last ${randomUUID()}`;
  const other = others.get(asker);
  if (other) await sendRecord(served, other, `${other.word} follows`);
  await sendRecord(served, asker, last);
  return last;
}

/** Server-sent events. */
export async function follow(served: Served, asker: Party, path: string): Promise<Answer> {
  const signal = AbortSignal.timeout(WITHIN_MS);
  const response = await fetch(`${served.apiUrl}${path}`, { headers: { authorization: `Bearer ${asker.token}` }, signal });
  const last = await sendBoth(served, asker);
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece as Uint8Array, { stream: true });
    if (text.includes(last)) break;
  }
  return { status: response.status, headers: response.headers, text, json: undefined };
}

export async function followSocket(served: Served, asker: Party, path: string): Promise<Answer> {
  const socket = new WebSocket(`${served.apiUrl.replace("http", "ws")}${path}`, { headers: { authorization: `Bearer ${asker.token}` } });
  try {
    let text = "";
    const ended = Promise.withResolvers<void>();
    let last = "";
    socket.on("message", (data: Buffer) => {
      text += data.toString("utf8");
      if (last !== "" && text.includes(last)) ended.resolve();
    });
    await once(socket, "open", { signal: AbortSignal.timeout(WITHIN_MS) });
    last = await sendBoth(served, asker);
    if (text.includes(last)) ended.resolve();
    await Promise.race([
      ended.promise,
      once(AbortSignal.timeout(WITHIN_MS), "abort").then(() => Promise.reject(new Error("no record came"))),
    ]);
    return { status: 200, headers: new Headers(), text, json: undefined };
  } finally {
    socket.terminate();
  }
}
