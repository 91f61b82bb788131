// Generates the bodies of the benchmark `peers`: records of otlp-load.ts, and exposition text. Invariant: no two bodies of a run are equal,
// and their times are the time of sending.
import { LoadBody, type LoadSignal } from "../../fixtures/otlp-load.ts";
import { writeBody } from "../../../backend/ingest/remote-write/write-request.fixture.ts";
import type { Body } from "./load.ts";

/** Series that senders share: more of them would measure how each engine meets new series. */
const SERIES_SETS = 8;
const MS_DIGITS = 13;

export function otlpBody(signal: LoadSignal, records: number, pod: string): Body {
  const body = new LoadBody(signal, records, pod);
  return { records, next: () => body.next() };
}

/** Number of requests that are prepared before the run, because their times are in the compressed part. */
const PREPARED = 16;

/** The same series as a remote write request. */
export function writeLoadBody(lines: number, sender: number): Body {
  const now = Date.now();
  const bodies = Array.from({ length: PREPARED }, (_, request) =>
    writeBody(
      Array.from({ length: lines }, (_, index) => ({
        labels: [
          ["__name__", "http_request_duration_seconds_bucket"],
          ["handler", `/api/v1/things/${index % 97}`],
          ["instance", `10.0.${sender % SERIES_SETS}.${index % 50}:8080`],
          ["le", `${index % 12}`],
          ["method", "GET"],
          ["namespace", "prod"],
          ["pod", `thing-${index % 200}-abcde`],
        ],
        samples: [[index * 3 + sender + 0.5, now - request * 1000]],
      })),
    ),
  );
  let next = 0;
  return { records: lines, next: () => bodies[next++ % PREPARED] as Buffer };
}

/** A scrape of `lines` series. */
export function expositionBody(lines: number, sender: number): Body {
  const line = (_: unknown, index: number): string => {
    const labels = `method="GET",handler="/api/v1/things/${index % 97}",instance="10.0.${sender % SERIES_SETS}.${index % 50}:8080",namespace="prod",pod="thing-${index % 200}-abcde",le="${index % 12}"`;
    return `http_request_duration_seconds_bucket{${labels}} ${index * 3 + sender}.5 `;
  };
  const texts = Array.from({ length: lines }, line).map((text) => `${text}${"0".repeat(MS_DIGITS)}\n`);
  const bytes = Buffer.from(texts.join(""), "latin1");
  let end = 0;
  const places = texts.map((text) => (end += text.length) - 1 - MS_DIGITS);
  return {
    records: lines,
    next() {
      const now = Buffer.from(String(Date.now()), "latin1");
      for (const at of places) for (let digit = 0; digit < MS_DIGITS; digit += 1) bytes[at + digit] = now[digit] as number;
      return bytes;
    },
  };
}
