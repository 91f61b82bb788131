// Server-sent events out of the body of an answer. Invariant: an event is answered once it is whole, and none is held that is larger than
// MAX_EVENT_LENGTH.
import { Problem } from "./cli-error.ts";

export interface ServerEvent {
  /** `message` where the server names none. */
  readonly name: string;
  readonly id: string | undefined;
  readonly data: string;
}

/** The backend's own events have 512 KiB at most. */
const MAX_EVENT_LENGTH = 4 * 1024 * 1024;

/** `alive` is called for whatever comes, comments too. */
export async function* serverEvents(body: AsyncIterable<Uint8Array>, alive: () => void): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    alive();
    rest += decoder.decode(chunk, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    if (rest.length > MAX_EVENT_LENGTH) throw new Problem("the response is not a tail; is the URL right?");
    for (const part of parts) {
      const event = eventOf(part);
      if (event) yield event;
    }
  }
}

/** Undefined for comments alone. */
function eventOf(text: string): ServerEvent | undefined {
  const fields = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, name, value = ""] = /^([a-z]+)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name !== undefined) fields.set(name, [...(fields.get(name) ?? []), value]);
  }
  const data = fields.get("data");
  return data && { name: fields.get("event")?.at(-1) ?? "message", id: fields.get("id")?.at(-1), data: data.join("\n") };
}
