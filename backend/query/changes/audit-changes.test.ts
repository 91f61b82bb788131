import { expect, test } from "vitest";
import { auditTitle } from "./audit-changes.ts";

test("an entry of the audit log is a sentence without ids", () => {
  const subject = { rule_id: "5dcf2272", name: "Container restarts", limits: { bytes: 5 } };
  expect(auditTitle("rule.update", "ana@shop.example", subject)).toBe(
    'rule.update by ana@shop.example: Container restarts, limits={"bytes":5}',
  );
  expect(auditTitle("silence.create", null, { silence_id: "2b9a92da" })).toBe("silence.create by a key");
});
