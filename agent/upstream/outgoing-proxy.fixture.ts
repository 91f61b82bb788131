// Certificate authorities, TLS servers and an outgoing proxy on loopback, for tests of connections to the backend. Invariant: it does not
// load undici's index, which would hide what the agent's few modules of undici lack.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";

export interface Authority {
  /** The authority's own certificate. */
  caFile: string;
  key: string;
  cert: string;
}

/** A new authority, and a certificate for `localhost` and `host` that it signed. */
export function authority(folder: string, name: string, host = "backend.test"): Authority {
  const file = (end: string): string => join(folder, `${name}-${end}`);
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl("req", "-x509", ...newKey, "-keyout", file("ca.key"), "-out", file("ca.pem"), "-subj", `/CN=${name}`, "-days", "2");
  openssl("req", ...newKey, "-keyout", file("key"), "-out", file("csr"), "-subj", "/CN=localhost");
  writeFileSync(file("ext"), `subjectAltName=DNS:localhost,DNS:${host},IP:127.0.0.1\n`);
  const signed = ["-CA", file("ca.pem"), "-CAkey", file("ca.key"), "-days", "2", "-extfile", file("ext")];
  openssl("x509", "-req", "-in", file("csr"), "-out", file("crt"), ...signed);
  return { caFile: file("ca.pem"), key: readFileSync(file("key"), "utf8"), cert: readFileSync(file("crt"), "utf8") };
}

function openssl(...args: string[]): void {
  execFileSync("openssl", args, { stdio: "pipe" });
}

export async function listening(server: Server): Promise<{ port: number; close: () => Promise<unknown> }> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = (): Promise<unknown> => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { port: (server.address() as AddressInfo).port, close };
}

export interface OutgoingProxy {
  readonly port: number;
  /** Requested targets, and the `Proxy-Authorization` of each. */
  readonly asked: string[];
  readonly authorized: (string | undefined)[];
  readonly close: () => Promise<unknown>;
}

/** Tunnels every CONNECT to `port`, and answers all other requests itself. With `refusal`, it sends that in response to every CONNECT. */
export async function outgoingProxy(port: number, refusal?: string): Promise<OutgoingProxy> {
  const asked: string[] = [];
  const authorized: (string | undefined)[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    authorized.push(request.headers["proxy-authorization"]);
    response.end("forwarded");
  });
  server.on("connect", (request, socket: Socket) => {
    asked.push(`CONNECT ${request.url}`);
    authorized.push(request.headers["proxy-authorization"]);
    if (refusal !== undefined) {
      socket.end(`HTTP/1.1 ${refusal}\r\n\r\n`);
      return;
    }
    const target = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    target.pipe(socket).pipe(target);
    for (const each of [socket, target]) sockets.add(each.on("error", () => {}));
  });
  const { port: own, close } = await listening(server);
  return { port: own, asked, authorized, close: () => (sockets.forEach((socket) => socket.destroy()), close()) };
}
