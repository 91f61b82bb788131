// Checks that the tables of docs/sizing.md follow from its figures; reference.test.ts checks that the page is up to date.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { withCalculatedTables } from "./sizing.ts";

const PAGE = readFileSync(join(import.meta.dirname, "..", "docs/sizing.md"), "utf8");

/** The page with other figures, by their names. */
function withFigures(figures: Record<string, number>): string {
  return Object.entries(figures).reduce(
    (page, [name, value]) => page.replace(new RegExp(`(?<=^\\| \`${name}\` \\| )[\\d.,]+`, "m"), String(value)),
    PAGE,
  );
}

/** Cells of the row of so many nodes in a calculated table. */
function row(page: string, table: string, nodes: string): string[] {
  const [, after = ""] = withCalculatedTables(page).split(`<!-- calculated: ${table} -->`);
  const line = after.split("\n").find((one) => one.startsWith(`| ${nodes} |`)) ?? "";
  return line.split("|").map((cell) => cell.trim());
}

describe("the calculated tables of docs/sizing.md", () => {
  test("sum a node's figures", () => {
    const node = { line_bytes: 1024, spans: 0, span_requests: 0, series: 3000, interval_s: 30, heartbeat_s: 30 };
    // Lines go in requests of 256 KiB, and metrics are three requests each half minute.
    const busy = row(withFigures({ ...node, lines: 1000 }), "load", "100");
    expect(busy.slice(1, 8)).toEqual(["100", "401", "100,000", "0", "10,000", "300,000", "3.3"]);
    // With a line every ten seconds, each line is a separate request, sent one second after it was written.
    expect(row(withFigures({ ...node, lines: 0.1 }), "load", "1,000")[2]).toBe("191");
    expect(row(withFigures({ ...node, lines: 9 }), "load", "1,000")[2]).toBe("1,000");
  });

  test("calculate cores from the cost, with reserve", () => {
    const costs = { lines: 0, spans: 0, series: 0, span_requests: 10, request_us: 590, requests_of_a_process: 2000 };
    expect(row(withFigures(costs), "embedded", "100")[2]).toBe("1");
    expect(row(withFigures({ ...costs, request_us: 5900 }), "embedded", "100")[2]).toBe("10");
  });

  test("limit the embedded form to what one process has served", () => {
    const few = { lines: 0, spans: 0, series: 0, span_requests: 1 };
    expect(row(withFigures({ ...few, requests_of_a_process: 1101 }), "embedded", "1,000")[2]).toMatch(/^\d+$/);
    expect(row(withFigures({ ...few, requests_of_a_process: 1099 }), "embedded", "1,000")[2]).toBe("beyond one process");
  });

  test("calculate disk for all stored data", () => {
    const one = withFigures({ lines: 1, spans: 0, log_bytes: 1024, days: 7 });
    // 100 lines a second of a kibibyte for seven days.
    expect(row(one, "embedded", "100")[4]).toBe("58 GiB");
  });

  test("show the load of a cluster's agents on its API server, with and without the relay", () => {
    const figures = {
      api_requests: 6,
      api_cluster_requests: 60,
      api_answer_bytes: 2000,
      api_watches: 2,
      api_watches_direct: 7,
      pod_changes: 3,
      api_change_bytes: 4000,
    };
    const [, , requests, answers, watches, changes, direct, changesDirect] = row(withFigures(figures), "apiserver", "1,000");
    expect([requests, answers, watches, changes]).toEqual(["101.0", "202", "2,000", "200"]);
    expect([direct, changesDirect]).toEqual(["7,000", "1,200"]);
  });

  test("are rejected if a figure is missing", () => {
    expect(() => withCalculatedTables(PAGE.replace("| `log_bytes` |", "| `bytes` |"))).toThrow(/no figure log_bytes/);
  });
});
