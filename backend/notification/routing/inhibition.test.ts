import { expect, test } from "vitest";
import { TimeSlices } from "../../admission/time-slices.ts";
import type { Labels } from "../model/matchers.ts";
import { createInhibitor, type InhibitRule } from "./inhibition.ts";

const equals = (label: string, value: string) => ({ label, op: "=" as const, value });
const RULE: InhibitRule = {
  source_matchers: [equals("alertname", "ClusterDown")],
  target_matchers: [{ label: "alertname", op: "=~", value: "Node.*" }],
  equal: ["cluster"],
};

async function inhibitedBy(rules: readonly InhibitRule[], firing: readonly Labels[], target: Labels): Promise<string | undefined> {
  const sources = firing.map((labels, at) => ({ fingerprint: `source ${at}`, labels }));
  return (await createInhibitor(rules, sources, new TimeSlices()))(target);
}

test("an alert is inhibited by a firing source whose labels are equal, and by no other", async () => {
  const firing: Labels[] = [{ alertname: "Other" }, { alertname: "ClusterDown", cluster: "a" }];
  expect(await inhibitedBy([RULE], firing, { alertname: "NodeDown", cluster: "a" })).toBe("source 1");
  expect(await inhibitedBy([RULE], firing, { alertname: "NodeDown", cluster: "b" })).toBeUndefined();
  expect(await inhibitedBy([RULE], firing, { alertname: "DiskFull", cluster: "a" })).toBeUndefined();
  expect(await inhibitedBy([RULE], [], { alertname: "NodeDown", cluster: "a" })).toBeUndefined();
  expect(await inhibitedBy([], firing, { alertname: "NodeDown", cluster: "a" })).toBeUndefined();
});

test("a missing label counts as empty", async () => {
  expect(await inhibitedBy([RULE], [{ alertname: "ClusterDown" }], { alertname: "NodeDown" })).toBe("source 0");
  expect(await inhibitedBy([RULE], [{ alertname: "ClusterDown", cluster: "" }], { alertname: "NodeDown" })).toBe("source 0");
  expect(await inhibitedBy([RULE], [{ alertname: "ClusterDown" }], { alertname: "NodeDown", cluster: "a" })).toBeUndefined();
});

test("an alert that matches both sides is inhibited only by a source that is no target", async () => {
  const severity: InhibitRule = {
    source_matchers: [{ label: "severity", op: "=~", value: "critical|warning" }],
    target_matchers: [{ label: "severity", op: "=~", value: "warning|info" }],
    equal: [],
  };
  const [critical, warning, info] = [{ severity: "critical" }, { severity: "warning" }, { severity: "info" }];
  expect(await inhibitedBy([severity], [warning], warning)).toBeUndefined();
  expect(await inhibitedBy([severity], [warning, critical], warning)).toBe("source 1");
  expect(await inhibitedBy([severity], [warning], info)).toBe("source 0");
});

test("without labels to compare, any source inhibits any target", async () => {
  const rule = { ...RULE, equal: [] };
  expect(await inhibitedBy([rule], [{ alertname: "ClusterDown", cluster: "a" }], { alertname: "NodeDown", cluster: "b" })).toBe("source 0");
});
