// Sends HTTP/1.1 requests over raw keep-alive sockets, one at a time on each: a thousand requests per second cost some hundredth of a core.
// Invariant: a request that a closing connection did not answer is sent once more on another connection, as agents do.
import { connect, type Socket } from "node:net";

const HEAD_END = "\r\n\r\n";

interface Waiting {
  readonly request: Buffer;
  readonly answered: (status: string) => void;
  isRepeated: boolean;
}

/** Connections to one address; if all are busy, another one is opened. */
export class Connections implements Disposable {
  readonly #port: number;
  readonly #host: string;
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();
  repeated = 0;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    [this.#host, this.#port] = [hostname, Number(port)];
  }

  get open(): number {
    return this.#all.size;
  }

  /** Returns the status, or the name of the error. */
  send(request: Buffer): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#send({ request, answered: resolve, isRepeated: false });
    return promise;
  }

  #send(waiting: Waiting): void {
    (this.#idle.pop() ?? this.#opened()).send(waiting);
  }

  #opened(): Connection {
    const connection = new Connection(connect(this.#port, this.#host), {
      free: () => this.#idle.push(connection),
      closed: (left, why) => {
        this.#all.delete(connection);
        const at = this.#idle.indexOf(connection);
        if (at >= 0) this.#idle.splice(at, 1);
        if (left?.isRepeated) left.answered(why);
        else if (left) {
          this.repeated += 1;
          this.#send({ ...left, isRepeated: true });
        }
      },
    });
    this.#all.add(connection);
    return connection;
  }

  [Symbol.dispose](): void {
    for (const connection of this.#all) connection.destroy();
  }
}

class Connection {
  readonly #socket: Socket;
  readonly #free: () => void;
  #waiting: Waiting | undefined;
  #received = "";

  constructor(socket: Socket, { free, closed }: { free: () => void; closed: (left: Waiting | undefined, why: string) => void }) {
    this.#socket = socket;
    this.#free = free;
    let why = "closed";
    socket
      .setEncoding("latin1")
      .setNoDelay()
      .on("data", (text) => this.#take(String(text)))
      .on("error", (error: NodeJS.ErrnoException) => {
        why = error.code ?? error.message;
      })
      .on("close", () => {
        const left = this.#waiting;
        this.#waiting = undefined;
        closed(left, why);
      });
  }

  send(waiting: Waiting): void {
    this.#waiting = waiting;
    this.#socket.write(waiting.request);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #take(text: string): void {
    this.#received += text;
    const headEnd = this.#received.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const bodyLength = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < headEnd + HEAD_END.length + bodyLength) return;
    this.#received = "";
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (/\r\nconnection: *close/i.test(head)) this.#socket.destroy();
    else this.#free();
    waiting?.answered(head.slice("HTTP/1.1 ".length, "HTTP/1.1 204".length));
  }
}
