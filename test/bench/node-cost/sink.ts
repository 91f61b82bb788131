// A minimal backend for an agent, a collector and a client of Loki. It counts requests and records, and all bytes on its connections in
// both directions.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export class Sink implements AsyncDisposable {
  readonly listen: string;
  /** Bytes of request bodies. */
  bodyBytes = 0;
  requests = 0;
  /** Called with each body and its Content-Encoding. */
  onBody: ((body: Buffer, encoding: string) => void) | undefined;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets: Set<Socket>;
  #closedBytes = 0;

  static async start(): Promise<Sink> {
    const server = createServer({ keepAliveTimeout: 600_000 }).listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Sink(server);
  }

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.#sockets = new Set();
    this.listen = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        this.#closedBytes += socket.bytesRead + socket.bytesWritten;
      });
    });
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => {
        this.bodyBytes += chunk.length;
        if (this.onBody) chunks.push(chunk);
      });
      request.on("end", () => {
        this.requests += 1;
        this.onBody?.(Buffer.concat(chunks), request.headers["content-encoding"] ?? "");
        answer(request.url ?? "", response);
      });
    });
  }

  get url(): string {
    return `http://${this.listen}`;
  }

  get networkBytes(): number {
    return [...this.#sockets].reduce((sum, socket) => sum + socket.bytesRead + socket.bytesWritten, this.#closedBytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

function answer(path: string, response: ServerResponse): void {
  if (path.endsWith("/register")) {
    const key = {
      agent_id: "0b5a3c1e-0000-4000-8000-000000000001",
      api_key: "ak_of_the_bench",
      key_created_at: new Date().toISOString(),
    };
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify(key));
  } else if (path.startsWith("/v1/")) response.writeHead(200, { "content-type": "application/json" }).end("{}");
  else response.writeHead(204).end();
}
