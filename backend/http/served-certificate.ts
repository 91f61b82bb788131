// The TLS certificate of one listener, reloaded when its files change. Invariant: the served certificate and key always match; if a new
// pair does not, an error is logged and the old pair stays. The files are read by path every few seconds, because a mounted Secret
// changes by a symbolic link of its folder, which watching the file would not notice.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { Outage } from "../../common/outage.ts";
import type { Log } from "../operations/log.ts";

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
  /** Unix milliseconds. */
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

  /** Throws if the files cannot be read. Whether certificate and key match is checked by the listener. */
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

  /** Keeps `server` on the newest matching pair, until disposed. */
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
      // While the two files are being replaced, one of them may be missing or old for one check.
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
    this.#options.log.warn(
      { event, certFile: this.#files.certFile, expires: expires.toISOString() },
      `TLS certificate ${phrase}: replace both files; they are reloaded without a restart`,
    );
  }
}

/** Undefined for a certificate that Node.js cannot parse; the listener has already refused that. */
function readExpiry({ cert }: CertificatePair): Date | undefined {
  try {
    return new X509Certificate(cert).validToDate;
  } catch {
    return undefined;
  }
}
