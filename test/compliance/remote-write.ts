// The official tests of receivers of Prometheus remote write 2.0 (github.com/prometheus/compliance, remotewrite/receiver), run with Go from a
// checkout against one address.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface SuiteTest {
  readonly name: string;
  readonly outcome: "pass" | "fail" | "skip";
  /** The test's output in one line. */
  readonly why: string;
}

interface Event {
  readonly Action: string;
  readonly Test?: string;
  readonly Output?: string;
}

/** Tests that have no tests below them. Needs Go, and minutes to compile the first time. `suite`: the folder of the tests. */
export function runReceiverSuite(suite: string, url: string, token: string, folder: string): SuiteTest[] {
  const config = join(folder, "receivers.yml");
  const receiver = { name: "atherops", url: `${url}/api/v1/write`, authorization: { credentials: token } };
  writeFileSync(config, stringify({ remote_write: [receiver] }));
  const env = { ...process.env, GOWORK: "off", CGO_ENABLED: "0", PROMETHEUS_RW2_COMPLIANCE_CONFIG_FILE: config };
  const options = { cwd: suite, env, encoding: "utf8", maxBuffer: MAX_OUTPUT_BYTES } as const;
  const { stdout, status } = spawnSync("go", ["test", "-json", "-count=1", "."], options);
  const tests = readEvents(stdout);
  if (tests.length === 0) throw new Error(`the tests of remote write did not run: go ended with ${status}`);
  return tests;
}

function readEvents(output: string): SuiteTest[] {
  const events = output.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Event] : []));
  const names = new Set(events.flatMap(({ Test: name }) => name ?? []));
  return events.flatMap(({ Action: action, Test: name }) => {
    const isOutcome = action === "pass" || action === "fail" || action === "skip";
    if (name === undefined || !isOutcome || [...names].some((other) => other.startsWith(`${name}/`))) return [];
    return [{ name, outcome: action, why: action === "pass" ? "" : printed(events, name) }];
  });
}

function printed(events: readonly Event[], name: string): string {
  const output = events
    .flatMap((event) => (event.Test === name && event.Action === "output" ? [event.Output?.trim() ?? ""] : []))
    .join("\n");
  const message = /Messages:\s*(.+)/.exec(output)?.[1];
  const [expected, actual] = [/expected\s*: (.+)/.exec(output)?.[1], /actual\s*: (.+)/.exec(output)?.[1]];
  const values = expected === undefined ? "" : `expected ${expected}, got ${actual}`;
  return [values, message ?? /Error:\s*(.+)/.exec(output)?.[1] ?? ""].filter(Boolean).join(": ");
}
