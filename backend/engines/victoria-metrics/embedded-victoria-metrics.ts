// Runs the embedded metrics engine: a supervised victoria-metrics on a free loopback port, with its data under DATA_DIR/metrics. After each
// start the journal is replayed until the engine has accepted everything. Invariants: the port stays the same across restarts of the child,
// so that clients need not notice them; the replay retries with increasing delays, because an engine that starts on a full disk refuses
// writes at first; one replay runs at a time.
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { type ChildTiming, type EngineChild, superviseChild } from "../child.ts";
import { engineLogin, type EngineLogin } from "../engine-http.ts";
import { MAX_EXPRESSION_BYTES, MAX_METRIC_QUERY_MIB } from "../engine-limits.ts";
import { openWriteJournal, type WriteJournal } from "./journal.ts";
import { Replay } from "./replay.ts";
import { countSeries, createSnapshot } from "./snapshot.ts";

export interface EmbeddedVictoriaMetricsOptions {
  /** Program paths or names, as `settings.victoriaMetricsPath`. */
  readonly candidates: readonly string[];
  /** The backend's data directory; the engine uses its folder `metrics`. */
  readonly dataDir: string;
  /** In the format of `-retentionPeriod`, e.g. `30d`. */
  readonly retention: string;
  /** File of the password that the port requires, created at the first start; undefined: the port requires none. */
  readonly passwordFile: string | undefined;
  /** False: acknowledged writes survive a crash of processes but not a power failure. Default true. */
  readonly isJournalSynced?: boolean;
  readonly log: Log;
  readonly stopping?: AbortSignal;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
  /** Delay before the first retry of writes that the engine refused during a replay. */
  readonly firstRetryMs?: number;
}

export interface EmbeddedVictoriaMetrics extends AsyncDisposable {
  /** Both URLs contain the login. */
  readonly writeUrl: string;
  readonly queryUrl: string;
  readonly child: EngineChild;
  /**
   * For the store: an appended write survives a crash of the engine. Rejects while the engine is down, so that the journal does not grow
   * then.
   */
  readonly journal: Pick<WriteJournal, "append" | "expire" | "eraseDeadLetters">;
  /**
   * Takes a snapshot with hard links: the journal in `journalFolder`, the samples in a snapshot of the engine. Every write that was
   * acknowledged before the call is in one of them. Rejects while the engine is down.
   */
  snapshot(journalFolder: string): Promise<{ readonly snapshot: string; readonly series: number | undefined }>;
}

const PORT_ATTEMPTS = 3;

/** Resolves once the engine responds and has the journal's pending writes. Rejects with its last output if it cannot start. */
export async function startVictoriaMetrics(options: EmbeddedVictoriaMetricsOptions): Promise<EmbeddedVictoriaMetrics> {
  const { isJournalSynced: isSynced = true, log } = options;
  const journal = openWriteJournal(join(options.dataDir, "metrics-journal"), { isSynced, log });
  const login = engineLogin(options.passwordFile);
  const replay = new Replay(journal, log, options.firstRetryMs);
  const { child, url } = await startOnFreePort(options, login, {
    onExit: () => journal.engineCrashed(),
    onRestart: (engineUrl) => {
      options.onRestart?.();
      void replay.engineIsUp(engineUrl);
    },
  });
  await replay.engineIsUp(url);
  return {
    writeUrl: url,
    queryUrl: url,
    child,
    journal: {
      async append(path, body) {
        if (!child.running) throw new Error("victoria-metrics is not running");
        await journal.append(path, body);
      },
      expire: () => journal.expire(),
      eraseDeadLetters: (deletions) => journal.eraseDeadLetters(deletions),
    },
    async snapshot(journalFolder) {
      if (!child.running) throw new Error("victoria-metrics is not running");
      // Before the snapshot: the engine has had any write that leaves the journal from now on for long enough to include it in its
      // snapshot.
      await journal.linkInto(journalFolder);
      const snapshot = await createSnapshot(url);
      // And after it, so that a write that the snapshot contains in part is complete in the journal.
      await journal.linkInto(journalFolder);
      return { snapshot, series: await countSeries(url) };
    },
    async [Symbol.asyncDispose]() {
      await replay[Symbol.asyncDispose]();
      await child[Symbol.asyncDispose]();
      await journal[Symbol.asyncDispose]();
      if (!journal.isReplayPending && child.stoppedCleanly) await journal.clear();
    },
  };
}

async function startOnFreePort(
  options: EmbeddedVictoriaMetricsOptions,
  login: EngineLogin,
  events: { onExit: () => void; onRestart: (url: string) => void },
): Promise<{ child: EngineChild; url: string }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freeLoopbackPort();
    const address = `http://127.0.0.1:${port}`;
    const url = login.in(address);
    try {
      const child = await superviseChild({
        name: "victoria-metrics",
        candidates: options.candidates,
        args: [...flags(options, port), ...login.flags],
        pidFile: join(options.dataDir, "victoria-metrics.pid"),
        readyUrl: `${address}/health`,
        loginUrl: `${url}/metrics`,
        log: options.log,
        stopping: options.stopping,
        onExit: events.onExit,
        onRestart: () => events.onRestart(url),
        timing: options.timing,
      });
      return { child, url };
    } catch (error) {
      // Another process can take the port before the engine listens on it.
      if (attempt === PORT_ATTEMPTS || !String(error).includes("address already in use")) throw error;
    }
  }
}

function flags({ dataDir, retention }: EmbeddedVictoriaMetricsOptions, port: number): string[] {
  return [
    `-httpListenAddr=127.0.0.1:${port}`,
    `-storageDataPath=${join(dataDir, "metrics")}`,
    `-retentionPeriod=${retention}`,
    // The minimum. Because sorting and noticing take time, too, up to six seconds of samples are only in memory; journal.ts keeps them.
    "-inmemoryDataFlushInterval=1s",
    // A sample that is sent twice counts as one.
    "-dedup.minScrapeInterval=1ms",
    // A sample can be queried immediately.
    "-search.latencyOffset=0s",
    // The engine has no tenant for HELP and TYPE lines, so they are not stored at all.
    "-enableMetadata=false",
    "-memory.allowedPercent=30",
    // More than the concurrent queries of tenants (backend/storage/metrics/metric-store.ts), so that the rule evaluator always has slots.
    "-search.maxConcurrentRequests=16",
    // No query uses all cores or all memory.
    `-search.maxWorkersPerQuery=${Math.max(1, Math.floor(availableParallelism() / 2))}`,
    `-search.maxQueryLen=${MAX_EXPRESSION_BYTES}`,
    `-search.maxMemoryPerQuery=${MAX_METRIC_QUERY_MIB}MiB`,
    "-loggerLevel=WARN",
  ];
}

/** A port on 127.0.0.1 that was free a moment ago. */
async function freeLoopbackPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new Error("no loopback port could be had");
  return address.port;
}
