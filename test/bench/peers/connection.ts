// A sender's connection that costs as little CPU as possible: head and body are prepared and written at once, and only the status line of
// the response is read. Invariant: one request at a time; any status other than 204 ends the run with the message of the response.
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export class Connection implements Disposable {
  readonly #address: { readonly host: string; readonly port: number };
  #socket: Socket | undefined;
  #received = "";
  #answered = Promise.withResolvers<string>();

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#address = { host: hostname, port: Number(port) };
  }

  /** Connects if there is no connection: a backend closes a connection after a number of requests. */
  async open(): Promise<Socket> {
    if (this.#socket?.writable) return this.#socket;
    this[Symbol.dispose]();
    const socket = connect({ ...this.#address, noDelay: true });
    this.#socket = socket;
    socket.setEncoding("latin1").on("data", (text: string) => this.#take(text));
    socket.on("error", (error) => this.#answered.reject(error));
    socket.on("close", () => this.#answered.reject(new Error(`the connection ended after ${JSON.stringify(this.#received)}`)));
    await once(socket, "connect");
    return socket;
  }

  /** `head` ends with an empty line and contains the length of `body`. */
  async post(head: Buffer, body: Buffer): Promise<void> {
    const socket = await this.open();
    this.#received = "";
    this.#answered = Promise.withResolvers();
    socket.cork();
    socket.write(head);
    socket.write(body);
    socket.uncork();
    const answer = await this.#answered.promise;
    if (/^connection: close\r$/im.test(answer)) this[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.#socket
      ?.removeAllListeners()
      .on("error", () => undefined)
      .destroy();
    this.#socket = undefined;
  }

  #take(text: string): void {
    this.#received += text;
    const end = this.#received.indexOf("\r\n\r\n");
    if (end === -1) return;
    if (this.#received.startsWith("HTTP/1.1 204 ")) return this.#answered.resolve(this.#received);
    const length = Number(/^content-length: (\d+)\r$/im.exec(this.#received)?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return;
    this.#answered.reject(new Error(`answered ${JSON.stringify(this.#received.slice(0, 2000))}`));
  }
}
