import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findPodLogProblem } from "./pod-log-links.ts";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-links-"))));
afterEach(() => rmSync(folder, { recursive: true }));

const problem = async (): Promise<object | undefined> => findPodLogProblem("own", join(folder, "pods"));

test("finds dangling links of Docker but not of containerd, and names the chart value to set", async () => {
  mkdirSync(join(folder, "pods", "telemetry_agent_own"), { recursive: true });
  const containers = join(folder, "pods", "shop_web_u", "app");
  mkdirSync(containers, { recursive: true });
  writeFileSync(join(containers, "0.log"), "");
  expect(await problem()).toBeUndefined();
  const target = join(folder, "docker", "c1-json.log");
  symlinkSync(target, join(containers, "1.log"));
  expect(await problem()).toMatchObject({ advice: expect.stringMatching(/1\.log points to .*c1-json\.log.*logs\.dockerContainers/) });
  mkdirSync(join(folder, "docker"));
  writeFileSync(target, "");
  expect(await problem()).toBeUndefined();
});

test("finds that the kubelet writes to another folder, even if this one has old logs", async () => {
  expect(await problem()).toMatchObject({ what: expect.stringContaining("no folder of the agent's own pod") });
  mkdirSync(join(folder, "pods", "shop_web_u", "app"), { recursive: true });
  expect(await problem()).toMatchObject({ advice: expect.stringContaining("podLogsDir") });
});
