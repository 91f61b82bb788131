// The embedded metrics engine: a supervised victoria-metrics on a free loopback port, its data under DATA_DIR/metrics. Invariant: the
// port stays the same across restarts of the child, so that its clients need not know of them. Called by serve.ts when no URL is set.
import { createServer } from "node:net";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { superviseChild, type ChildTiming, type EngineChild } from "../child.ts";
import { WriteJournal } from "./journal.ts";

export interface EmbeddedVictoriaMetricsOptions {
  /** Program paths or names, as `settings.victoriaMetricsPath`. */
  readonly candidates: readonly string[];
  /** The backend's data directory; the engine takes `metrics` in it. */
  readonly dataDir: string;
  /** As `-retentionPeriod` takes it, e.g. `30d`. */
  readonly retention: string;
  readonly log: Log;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface EmbeddedVictoriaMetrics extends AsyncDisposable {
  readonly writeUrl: string;
  readonly queryUrl: string;
  readonly child: EngineChild;
  /** For the store: what it appends survives the engine's death. Rejects while the engine is down, so that nothing piles up then. */
  readonly journal: { append(path: string, body: Buffer): Promise<void> };
}

const PORT_ATTEMPTS = 3;

/** Resolves once the engine answers and has what a killed one had not written. Rejects with its last words if it cannot start. */
export async function startVictoriaMetrics(options: EmbeddedVictoriaMetricsOptions): Promise<EmbeddedVictoriaMetrics> {
  const journal = new WriteJournal(join(options.dataDir, "metrics-journal"));
  // One at a time: an engine that dies during a replay may be up again before that replay has noticed.
  let replayed = Promise.resolve(true);
  const replayTo = (engineUrl: string): Promise<boolean> => (replayed = replayed.then(() => replay(journal, engineUrl, options.log)));
  const { child, url } = await startOnFreePort(options, (engineUrl) => {
    options.onRestart?.();
    void replayTo(engineUrl);
  });
  await replayTo(url);
  return {
    writeUrl: url,
    queryUrl: url,
    child,
    journal: {
      async append(path, body) {
        if (!child.running) throw new Error("victoria-metrics is not running");
        await journal.append(path, body);
      },
    },
    async [Symbol.asyncDispose]() {
      const engineHasAll = await replayed;
      await child[Symbol.asyncDispose]();
      await journal[Symbol.asyncDispose]();
      if (engineHasAll && child.stoppedInOrder) await journal.clear();
    },
  };
}

/** Answers whether the engine took everything. Never rejects: an engine that dies meanwhile comes up again, and is given it all then. */
async function replay(journal: WriteJournal, url: string, log: Log): Promise<boolean> {
  try {
    const writes = await journal.replay(async (path, body) => {
      const answer = await fetch(url + path, { method: "POST", body: new Uint8Array(body) });
      await answer.body?.cancel();
      if (answer.status >= 300 && answer.status !== 400) throw new Error(`the engine answered ${answer.status}`);
    });
    if (writes > 0) log.info({ writes }, "gave the metrics engine again what it may not have written to disk");
    return true;
  } catch (error) {
    log.error({ err: error }, "could not give the metrics engine again what it may not have written to disk; trying at its next start");
    return false;
  }
}

async function startOnFreePort(
  options: EmbeddedVictoriaMetricsOptions,
  onRestart: (url: string) => void,
): Promise<{ child: EngineChild; url: string }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freeLoopbackPort();
    const url = `http://127.0.0.1:${port}`;
    try {
      const child = await superviseChild({
        name: "victoria-metrics",
        candidates: options.candidates,
        args: flags(options, port),
        pidFile: join(options.dataDir, "victoria-metrics.pid"),
        readyUrl: `${url}/health`,
        log: options.log,
        onRestart: () => onRestart(url),
        timing: options.timing,
      });
      return { child, url };
    } catch (error) {
      // Between choosing the port and listening on it, another process can take it.
      if (attempt === PORT_ATTEMPTS || !String(error).includes("address already in use")) throw error;
    }
  }
}

function flags({ dataDir, retention }: EmbeddedVictoriaMetricsOptions, port: number): string[] {
  return [
    `-httpListenAddr=127.0.0.1:${port}`,
    `-storageDataPath=${join(dataDir, "metrics")}`,
    `-retentionPeriod=${retention}`,
    // The least; with the time to sort and to notice, up to six seconds are in memory only. journal.ts keeps them.
    "-inmemoryDataFlushInterval=1s",
    // The same sample sent twice is one sample.
    "-dedup.minScrapeInterval=1ms",
    // A sample can be queried at once.
    "-search.latencyOffset=0s",
    // HELP and TYPE lines have no tenant in this engine, so they are not kept at all.
    "-enableMetadata=false",
    "-memory.allowedPercent=30",
    "-loggerLevel=WARN",
  ];
}

/** A port that was free a moment ago on 127.0.0.1. */
export async function freeLoopbackPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new Error("no loopback port could be had");
  return address.port;
}
