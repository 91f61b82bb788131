// Senders of prepared bodies: each sends the next body when the previous one is answered. They share the cores with the measured programs,
// so a request costs them only two writes and some timestamps: heads are created and signed once a second, bodies before the run.
import { Connection } from "./connection.ts";

export interface Target {
  readonly url: string;
  readonly path: string;
  /** Headers for the current second, including signatures. */
  readonly headers: () => Readonly<Record<string, string>>;
}

/** One sender's body; `next` is the same bytes at another time. The sender has done with one before the next. */
export interface Body {
  readonly records: number;
  next(): Buffer;
}

export interface Sent {
  readonly records: number;
  readonly ms: number;
  /** Response times in ascending order. */
  readonly answeredMs: readonly number[];
}

export async function send(target: Target, bodies: readonly Body[], ms: number): Promise<Sent> {
  using stack = new DisposableStack();
  const connections = bodies.map(() => stack.use(new Connection(target.url)));
  await Promise.all(connections.map((connection) => connection.open()));
  const head = heads(target);
  const answeredMs: number[] = [];
  let records = 0;
  const startedAt = performance.now();
  const sender = async (body: Body, connection: Connection): Promise<void> => {
    for (let now = startedAt; now - startedAt < ms;) {
      const bytes = body.next();
      await connection.post(head(bytes.length), bytes);
      const answeredAt = performance.now();
      answeredMs.push(answeredAt - now);
      records += body.records;
      now = answeredAt;
    }
  };
  await Promise.all(bodies.map((body, index) => sender(body, connections[index] as Connection)));
  return { records, ms: performance.now() - startedAt, answeredMs: answeredMs.toSorted((a, b) => a - b) };
}

/** Request heads by the length of the body. */
function heads({ url, path, headers }: Target): (length: number) => Buffer {
  let second = 0;
  const made = new Map<number, Buffer>();
  return (length) => {
    const now = Math.floor(Date.now() / 1000);
    if (now !== second) made.clear();
    second = now;
    const known = made.get(length);
    if (known) return known;
    const fields = Object.entries({ host: new URL(url).host, ...headers(), "content-length": length });
    const head = Buffer.from(`POST ${path} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`, "latin1");
    made.set(length, head);
    return head;
  };
}
