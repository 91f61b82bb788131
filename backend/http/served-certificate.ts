// The TLS certificate of one listener: read when the listener is made, and again whenever its files have changed. Invariant: what is
// served is always a pair that fits; a new one that does not is told and the old one stays. Files are read by their paths every few
// seconds, because a mounted Secret changes by its folder's symbolic link, which no watch of the file sees.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { Outage } from "../../agent/common/outage.ts";
import type { Log } from "../observability/log.ts";

const LOOK_MS = 10_000;
const WARN_MS = 14 * 86_400_000;
const WARN_AGAIN_MS = 86_400_000;

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** Of a `https.Server` or `tls.Server`. */
interface Serving {
  setSecureContext(options: Pair): void;
}

export interface ServedCertificateOptions {
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly lookMs?: number;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

export class ServedCertificate implements Disposable {
  readonly #files: CertificateFiles;
  readonly #options: ServedCertificateOptions;
  readonly #now: () => number;
  readonly #outage: Outage;
  #served: Pair;
  /** Looks in a row at which a pair could not be taken. */
  #misfits = 0;
  #warnedMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  /** Throws when the files cannot be read; whether the pair fits, the listener says. */
  constructor(files: CertificateFiles, options: ServedCertificateOptions) {
    this.#files = files;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#outage = new Outage({
      began: (err) => options.log.error({ err, ...files }, "the new TLS certificate cannot be taken: the old one stays"),
      ended: ({ seconds }) => options.log.info({ seconds }, "recovered: the files of the TLS certificate fit"),
    });
    this.#served = { cert: readFileSync(files.certFile, "utf8"), key: readFileSync(files.keyFile, "utf8") };
  }

  get pair(): Pair {
    return this.#served;
  }

  /** Keeps `server` on the newest pair that fits, until disposed. */
  keep(server: Serving): void {
    this.#warnOfExpiry();
    // One look at a time: an older one that ends late would tell that all is well, and the same misfit were told again.
    const look = (): void => void (this.#looking ??= this.#look(server).finally(() => (this.#looking = undefined)));
    this.#timer = setInterval(look, this.#options.lookMs ?? LOOK_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #look(server: Serving): Promise<void> {
    const { certFile, keyFile } = this.#files;
    try {
      const read = { cert: await readFile(certFile, "utf8"), key: await readFile(keyFile, "utf8") };
      if (read.cert !== this.#served.cert || read.key !== this.#served.key) this.#take(server, read);
      this.#misfits = 0;
      this.#outage.recovered();
    } catch (error) {
      this.#misfits += 1;
      // They are two files: at one look, one of them may be missing or the old one.
      if (this.#misfits > 1) this.#outage.failed(error);
    }
    this.#warnOfExpiry();
  }

  /** Throws when the pair does not fit. */
  #take(server: Serving, read: Pair): void {
    createSecureContext(read);
    server.setSecureContext(read);
    this.#served = read;
    this.#warnedMs = Number.NEGATIVE_INFINITY;
    this.#options.log.info({ expires: expiryOf(read)?.toISOString() }, "a new TLS certificate is served");
  }

  #warnOfExpiry(): void {
    const expires = expiryOf(this.#served);
    const now = this.#now();
    if (!expires || expires.getTime() - now > WARN_MS || now - this.#warnedMs < WARN_AGAIN_MS) return;
    this.#warnedMs = now;
    const days = Math.floor((expires.getTime() - now) / 86_400_000);
    const what = days < 0 ? "has expired" : `expires in ${days} days`;
    this.#options.log.warn(
      { certFile: this.#files.certFile, expires: expires.toISOString() },
      `the TLS certificate ${what}: put a new pair in its place, it is taken without a restart`,
    );
  }
}

/** Undefined for what Node cannot read; the listener has refused that already. */
function expiryOf({ cert }: Pair): Date | undefined {
  try {
    return new X509Certificate(cert).validToDate;
  } catch {
    return undefined;
  }
}
