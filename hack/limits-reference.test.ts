import { expect, test } from "vitest";
import { LIMIT_FILES, limitsPage, readLimits } from "./limits-reference.ts";

test("every limit has a sentence that says what it bounds", async () => {
  const limits = (await Promise.all(LIMIT_FILES.map(readLimits))).flat();
  expect(limits.length).toBeGreaterThan(250);
  expect(limits.filter(({ reason }) => !/^[A-Z`].*[.)]$/s.test(reason)).map(({ name }) => name)).toEqual([]);
});

test("the page shows values with their unit", async () => {
  const page = await limitsPage();
  expect(page).toContain("| `MAX_BODY_BYTES` | 32 MiB |");
  expect(page).toContain("| `MAX_LOGIN_WAIT_MS` | 15m |");
  expect(page).toContain("| `MAX_ROWS_PER_ORG` | 5,000 |");
});
