// Reads `text/event-stream` from a body: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream.
// EventSource itself could not send the header that a session needs.
export interface StreamEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

export async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<StreamEvent> {
  let rest = "";
  let fields: Record<string, string> = {};
  for await (const text of body.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    const lines = (rest + text).split(/\r\n|\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (fields["data"] !== undefined) yield { id: fields["id"], event: fields["event"] ?? "message", data: fields["data"] };
        fields = {};
      } else if (!line.startsWith(":")) {
        const [name = "", value = ""] = line.split(/: ?(.*)/s);
        fields[name] = name === "data" && fields["data"] !== undefined ? `${fields["data"]}\n${value}` : value;
      }
    }
  }
}
