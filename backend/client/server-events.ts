// Reads server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. The console cannot use
// EventSource, which does not send the header that a session needs. Invariant: a longer event than MAX_EVENT_CHARACTERS is a RangeError.

export interface ServerEvent {
  /** The name of the event; `message` if the server sends none. */
  readonly name: string;
  readonly id: string | undefined;
  readonly data: string;
}

/** The backend's events have at most 512 KiB. */
const MAX_EVENT_CHARACTERS = 4 * 1024 * 1024;

/** Yields each event that has data as soon as it is complete. Calls `onChunk` for every chunk, even if it contains only comments. */
export async function* readServerEvents(body: AsyncIterable<Uint8Array>, onChunk?: () => void): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    onChunk?.();
    rest += decoder.decode(chunk, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    if (rest.length > MAX_EVENT_CHARACTERS) throw new RangeError("the response is not an event stream; is the URL right?");
    for (const part of parts) {
      const event = parseEvent(part);
      if (event) yield event;
    }
  }
}

/** Returns undefined for a block without data, such as a comment. */
function parseEvent(text: string): ServerEvent | undefined {
  const fields = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, name, value = ""] = /^([a-z]+)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name !== undefined) fields.set(name, [...(fields.get(name) ?? []), value]);
  }
  const data = fields.get("data");
  return data && { name: fields.get("event")?.at(-1) ?? "message", id: fields.get("id")?.at(-1), data: data.join("\n") };
}
