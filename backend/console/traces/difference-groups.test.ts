import { expect, test } from "vitest";
import { groupDifferences } from "./difference-groups.ts";

const row = (name: string, value: string, share: number, otherShare: number) => ({
  name,
  value,
  compared: 0,
  others: 0,
  compared_share: share,
  others_share: otherShare,
  difference: share - otherShare,
});

test("differences are grouped by attribute, the largest first, without those that restate the condition", () => {
  const rows = [
    row("status", "ERROR", 1, 0),
    row("attribute.version", "2.4.0", 0.5, 0.2),
    row("attribute.provider", "adyen", 0.97, 0.3),
    row("attribute.version", "2.3.9", 0.2, 0.7),
    row("attribute.region", "eu", 0.5, 0.5),
  ];
  const groups = groupDifferences(rows, true).map(({ name, rows: values }) => [name, values.map(({ value }) => value)]);
  expect(groups).toEqual([
    ["attribute.provider", ["adyen"]],
    ["attribute.version", ["2.3.9", "2.4.0"]],
  ]);
  expect(groupDifferences(rows, false)[0]?.name).toBe("status");
});
