// The parser tests of OpenMetrics (github.com/prometheus/OpenMetrics, tests/testdata/parsers): each text is sent to the backend as a signed
// body. A valid one has to be accepted, an invalid one rejected.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sign } from "../../common/protocol/signature.ts";
import type { Product } from "./product.ts";

export interface OpenMetricsTest {
  readonly name: string;
  readonly isValid: boolean;
  readonly isAccepted: boolean;
  /** The samples of an accepted text that are counted, not stored, or the reason of the rejection. */
  readonly answer: string;
}

/** Why these texts are accepted: an expression for the names of the tests, and the reason. */
export const LENIENT: readonly (readonly [RegExp, string])[] = [
  [
    /^bad_(?:clashing_names|help|metadata|repeated_metadata|type|unit)/,
    "Lines with `#` are comments: types, units and help texts are not read, because VictoriaMetrics stores series without them.",
  ],
  [
    /^bad_(?:counter_values|grouping_or_ordering|histograms|info_and_stateset_values|missing_or_invalid_labels|stateset_info_values)/,
    "Each line is a sample of its own, so its value, labels and position are not checked against a type. `NaN` and times outside of the retention are counted as not stored.",
  ],
  [/^bad_exemplar/, "The rest of a line after the value is a comment: exemplars of exposition text are not stored."],
  [
    /^bad_(?:blank_line|invalid_labels|missing_or_extra_commas|value|text_after_eof)/,
    "Prometheus' text format allows it (blank lines, spaces, a comma after the last label, comments), and `POST /ingest` accepts both formats.",
  ],
  [/^bad_no_eof/, "HTTP shows whether a body is complete, so a truncated one is rejected without `# EOF` too."],
];

export async function runOpenMetrics(folder: string, { place, tenant }: Product): Promise<OpenMetricsTest[]> {
  const tests: OpenMetricsTest[] = [];
  for (const name of readdirSync(folder).sort()) {
    const { file, shouldParse } = JSON.parse(readFileSync(join(folder, name, "test.json"), "utf8")) as {
      file: string;
      shouldParse: boolean;
    };
    const headers = { ...sign(tenant.apiKey, "POST", "/ingest", Date.now() / 1000), "content-type": "text/plain" };
    const body = readFileSync(join(folder, name, file));
    const answer = await fetch(`${place.apiUrl}/ingest`, { method: "POST", headers, body });
    const text = await answer.text();
    if (answer.status !== 400 && !answer.ok) throw new Error(`${name}: ${answer.status} ${text}`);
    tests.push({ name, isValid: shouldParse, isAccepted: answer.ok, answer: text });
  }
  return tests;
}
