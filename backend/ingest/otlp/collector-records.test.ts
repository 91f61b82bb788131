// A raw line and the record that release 0.1's agent made of it with the collector's operators become the same row. The records in golden/ were
// written by the collector 0.149 with the configuration of that release, from the lines next to them.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CONTEXT } from "./decoded-rows.fixture.ts";
import { storedLines, linesBody, CONTAINER_LINES, LINES } from "./file-lines.fixture.ts";

interface Attribute {
  readonly key: string;
}

interface CollectorRecord {
  readonly line: string;
  readonly isContainer: boolean;
  readonly raw: string | { readonly base64: string };
  readonly record: { readonly observedTimeUnixNano: string; readonly attributes: readonly Attribute[] };
  readonly resource: { readonly attributes: readonly Attribute[] };
}

const RECORDS = JSON.parse(readFileSync(new URL("golden/collector-records.json", import.meta.url), "utf8")) as CollectorRecord[];

test.each(RECORDS)("$line", ({ isContainer, raw, record, resource }) => {
  const { observedTimeUnixNano, attributes } = record;
  const context = { ...CONTEXT, receivedAtMs: Math.ceil(Number(observedTimeUnixNano) / 1e6), readsLines: true };
  // The agent computes the attributes of a file once per batch, on the resource.
  const ofFile = [...resource.attributes, ...attributes.filter(({ key }) => key !== "log.iostream")];
  const bytes = typeof raw === "string" ? raw : Buffer.from(raw.base64, "base64");
  const line = linesBody(isContainer ? CONTAINER_LINES : LINES, [{ observedTimeUnixNano, body: { stringValue: bytes } }], ofFile);
  expect(storedLines(line, { context })).toEqual(storedLines(linesBody({}, [record], [...resource.attributes]), { context }));
});
