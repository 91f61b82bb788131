import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { adviceForLink, findBrokenLink } from "./pod-log-links.ts";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-links-"))));
afterEach(() => rmSync(folder, { recursive: true }));

test("finds dangling links of Docker but not of containerd, and names the chart value to set", async () => {
  const containers = join(folder, "pods", "shop_web_u", "app");
  mkdirSync(containers, { recursive: true });
  writeFileSync(join(containers, "0.log"), "");
  expect(await findBrokenLink(join(folder, "pods"))).toBeUndefined();
  const target = join(folder, "docker", "c1-json.log");
  symlinkSync(target, join(containers, "1.log"));
  const found = await findBrokenLink(join(folder, "pods"));
  expect(found).toEqual({ link: join(containers, "1.log"), target });
  expect(adviceForLink(found ?? { link: "", target: "" })).toContain("logs.dockerContainers");
  mkdirSync(join(folder, "docker"));
  writeFileSync(target, "");
  expect(await findBrokenLink(join(folder, "pods"))).toBeUndefined();
  expect(await findBrokenLink(join(folder, "none"))).toBeUndefined();
});
