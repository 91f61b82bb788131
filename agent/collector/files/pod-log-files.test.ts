import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { PodLogFiles } from "./pod-log-files.ts";

let folder: string;
let isFollowing: boolean;
let files: PodLogFiles;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-pods-"));
  isFollowing = true;
  files = new PodLogFiles({ folder, ownPodUid: "own", excludeNamespaces: ["kube-system"], isFollowing: () => isFollowing });
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(path: string, text = "x\n"): void {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), text);
}

async function list(): Promise<string[]> {
  const paths: string[] = [];
  for await (const { storedPath, size } of files.watched()) paths.push(`${storedPath.slice(folder.length + 1)} ${size}`);
  return paths.toSorted();
}

test("lists the files of the node's pods that the collector reads, also rotated ones and links", async () => {
  write("shop_web-1_uid/app/0.log", "line\n");
  write("shop_web-1_uid/app/0.log.20261129-101112");
  write("shop_web-1_uid/app/0.log.20261129-091112.gz");
  write("shop_web-1_uid/app/notes.txt");
  write("target", "docker\n");
  symlinkSync(join(folder, "target"), join(folder, "shop_web-1_uid/app/1.log"));
  symlinkSync(join(folder, "missing"), join(folder, "shop_web-1_uid/app/2.log"));
  write("kube-system_dns_uid/dns/0.log");
  write("observability_agent_own/agent/0.log");
  expect(await list()).toEqual(["shop_web-1_uid/app/0.log 5", "shop_web-1_uid/app/0.log.20261129-101112 2", "shop_web-1_uid/app/1.log 7"]);
  expect(files.status()).toMatchObject({ open: 3, isFollowing: true });
});

test("lists none while no pod logs are collected, or if there is no folder", async () => {
  write("shop_web-1_uid/app/0.log");
  isFollowing = false;
  expect(await list()).toEqual([]);
  isFollowing = true;
  rmSync(join(folder, "shop_web-1_uid"), { recursive: true });
  expect(await list()).toEqual([]);
  expect(files.status()).toMatchObject({ open: 0, isFollowing: true });
});
