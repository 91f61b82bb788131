// Opens the listening sockets of a server, and serves its TLS certificate. libuv accepts one connection per listening socket in each
// iteration of the event loop, so if unauthenticated clients open hundreds of connections, new ones would wait behind them for up to half a
// minute. Therefore several sockets share one address. Invariants: a port of another process is refused as usual, although these sockets
// share theirs (SO_REUSEPORT); if the operating system does not support that, there is one socket. The served certificate and key always
// match: if a new pair does not, an error is logged and the old pair stays. Their files are read by path every few seconds, because a
// mounted Secret changes by a symbolic link of its folder.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { Outage } from "../../common/outage.ts";
import type { Log } from "../log.ts";
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

const CHECK_EVERY_MS = 10_000;
const WARN_BEFORE_MS = 14 * 86_400_000;
const WARN_EVERY_MS = 86_400_000;

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** An `https.Server` or `tls.Server`. */
interface TlsListener {
  setSecureContext(options: CertificatePair): void;
}

export interface ServedCertificateOptions {
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly checkEveryMs?: number;
  readonly now?: () => number;
}

export class ServedCertificate implements Disposable {
  readonly #files: CertificateFiles;
  readonly #options: ServedCertificateOptions;
  readonly #now: () => number;
  readonly #outage: Outage;
  #served: CertificatePair;
  /** Consecutive checks that failed. */
  #failures = 0;
  #warnedMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;

  /** Throws if the files cannot be read. The listener checks whether certificate and key match. */
  constructor(files: CertificateFiles, options: ServedCertificateOptions) {
    this.#files = files;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#outage = new Outage({
      began: (err) =>
        options.log.error({ event: "tls.reload_failed", err, ...files }, "cannot reload TLS certificate and key, keeping the old ones"),
      ended: ({ seconds }) => options.log.info({ event: "tls.reload_recovered", seconds }, "TLS certificate and key can be loaded again"),
    });
    this.#served = { cert: readFileSync(files.certFile, "utf8"), key: readFileSync(files.keyFile, "utf8") };
  }

  get pair(): CertificatePair {
    return this.#served;
  }

  /** Keeps `server` on the newest matching pair until disposed. */
  watch(server: TlsListener): void {
    this.#warnOfExpiry();
    // One check at a time: an older check that ends late would report a recovery, and the same failure would be logged again.
    const check = (): void => void (this.#checking ??= this.#check(server).finally(() => (this.#checking = undefined)));
    this.#timer = setInterval(check, this.#options.checkEveryMs ?? CHECK_EVERY_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #check(server: TlsListener): Promise<void> {
    const { certFile, keyFile } = this.#files;
    try {
      const pair = { cert: await readFile(certFile, "utf8"), key: await readFile(keyFile, "utf8") };
      if (pair.cert !== this.#served.cert || pair.key !== this.#served.key) this.#serve(server, pair);
      this.#failures = 0;
      this.#outage.recovered();
    } catch (error) {
      this.#failures += 1;
      // While the two files are being replaced, one of them may be missing or old during one check.
      if (this.#failures > 1) this.#outage.failed(error);
    }
    this.#warnOfExpiry();
  }

  /** Throws if certificate and key do not match. */
  #serve(server: TlsListener, pair: CertificatePair): void {
    createSecureContext(pair);
    server.setSecureContext(pair);
    this.#served = pair;
    this.#warnedMs = Number.NEGATIVE_INFINITY;
    this.#options.log.info({ event: "tls.reloaded", expires: readExpiry(pair)?.toISOString() }, "TLS certificate reloaded");
  }

  #warnOfExpiry(): void {
    const expires = readExpiry(this.#served);
    const now = this.#now();
    if (!expires || expires.getTime() - now > WARN_BEFORE_MS || now - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = now;
    const days = Math.floor((expires.getTime() - now) / 86_400_000);
    const [event, phrase] =
      days < 0 ? ["tls.certificate_expired", "has expired"] : ["tls.certificate_expires_soon", `expires in ${days} days`];
    this.#options.log.warn({ event, certFile: this.#files.certFile, expires: expires.toISOString() }, `TLS certificate ${phrase}`);
  }
}

/** Undefined if Node.js cannot parse the certificate; the TLS server refuses such a certificate. */
function readExpiry({ cert }: CertificatePair): Date | undefined {
  try {
    return new X509Certificate(cert).validToDate;
  } catch {
    return undefined;
  }
}

export interface ListenAt {
  readonly host: string;
  readonly port: number;
  readonly backlog: number;
}

export interface AdditionalListeners {
  /** Accepts no more connections. Resolves when open connections have ended. */
  close(): Promise<void>;
}

/** The total number of sockets, which is the number of connections that one iteration of the event loop accepts. */
const LISTENERS = 64;
const CLOSE_IDLE_EVERY_MS = 100;

/** The options for the first listener, so that others can share its port. Throws like `listen` if the port is taken. */
export async function probePortSharing({ host, port, backlog }: ListenAt): Promise<{ reusePort: boolean }> {
  const probe = createServer();
  try {
    // The first probe does not share its port, because a sharing listener could join the listeners of another process.
    if (port !== 0) await untilListening(probe.listen({ host, port, backlog }));
    if (port !== 0) await close(probe);
    await untilListening(probe.listen({ host, port: 0, reusePort: true }));
    await close(probe);
    return { reusePort: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTSUP") return { reusePort: false };
    throw error;
  }
}

/** Adds listeners to a server that already listens with the options of `probePortSharing`. */
export async function addListeners(server: HttpServer, { host, backlog }: ListenAt): Promise<AdditionalListeners> {
  const { port } = server.address() as AddressInfo;
  // A plain HTTP client may close its sending side and still expect a response.
  const { allowHalfOpen } = server as HttpServer & { readonly allowHalfOpen: boolean };
  const listeners: Server[] = [];
  for (let index = 1; index < LISTENERS; index += 1) {
    // The server's `connection` event starts TLS, connection limits and HTTP, as for connections of the server's own listener.
    const listener = createServer({ noDelay: true, allowHalfOpen }, (socket: Socket) => void server.emit("connection", socket));
    if (server.maxConnections) listener.maxConnections = server.maxConnections;
    listeners.push(listener);
    await untilListening(listener.listen({ host, port, backlog, reusePort: true }));
  }
  return {
    async close() {
      const ended = Promise.all(listeners.map((listener) => close(listener)));
      // The server's own search for idle connections misses those that were busy then; they would stay open until their clients close them.
      const closeIdle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS);
      await ended.finally(() => clearInterval(closeIdle));
    },
  };
}

async function untilListening(server: Server): Promise<void> {
  await once(server, "listening");
}

async function close(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  await promise;
}
