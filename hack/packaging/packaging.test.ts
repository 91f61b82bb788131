// The installed command, typed by hand: it reads the same settings as the service, with systemd's rules.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { ROOT } from "../bundle.ts";

const PACKAGING = join(ROOT, "hack", "packaging");

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-packaging-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const script = readFileSync(join(PACKAGING, "atherops-otel-agent.sh"), "utf8");
  const moved = script.replaceAll("/etc/atherops", folder).replaceAll("/usr/lib/atherops-otel-agent", join(folder, "lib"));
  writeFileSync(join(folder, "atherops-otel-agent"), moved, { mode: 0o755 });
  mkdirSync(join(folder, "lib"));
  writeFileSync(join(folder, "lib", "node"), '#!/bin/sh\necho "ARGUMENTS=$*"\nexec env\n', { mode: 0o755 });
});

/** Environment of the command's Node.js process, with its arguments as ARGUMENTS. */
async function called(settings: string, env: NodeJS.ProcessEnv = {}): Promise<Record<string, string>> {
  writeFileSync(join(folder, "agent.env"), settings);
  const run = await execa(join(folder, "atherops-otel-agent"), ["diagnose", "--bundle", "a file"], {
    env: { PATH: process.env["PATH"], ...env },
    extendEnv: false,
  });
  expect(run.stderr).toBe("");
  return Object.fromEntries(run.stdout.split("\n").map((line) => [line.split("=")[0] ?? "", line.slice(line.indexOf("=") + 1)]));
}

test("reads a value as text: with blanks, stars and dollars, with or without quotes, and without a final line break", async () => {
  const got = await called(
    [
      "# BACKEND_URL=https://not.this",
      "",
      "LOG_PATHS=/var/log/*.log, /srv/my app/*.log",
      'LOG_MULTILINE_START="^\\d{4}-$(id)"',
      "INSTALL_TOKEN='it_x=y'",
      "not a setting",
      "export PATH=/nowhere",
      "BACKEND_URL=https://telemetry.example",
    ].join("\n"),
  );
  expect(got).toMatchObject({
    LOG_PATHS: "/var/log/*.log, /srv/my app/*.log",
    LOG_MULTILINE_START: "^\\d{4}-$(id)",
    INSTALL_TOKEN: "it_x=y",
    BACKEND_URL: "https://telemetry.example",
    PATH: process.env["PATH"],
    HEALTH_LISTEN: "127.0.0.1:9598",
    OTELCOL_PATH: join(folder, "lib", "otelcol-contrib"),
    ARGUMENTS: `--single-threaded-gc --max-semi-space-size=1 ${join(folder, "lib", "atherops-otel-agent.js")} diagnose --bundle a file`,
  });
});

test("keeps variables that are already set, also empty ones", async () => {
  const settings = "BACKEND_URL=https://of.the.file\nNO_PROXY=example.com\nHEALTH_LISTEN=:9598\n";
  const env = { BACKEND_URL: "https://of.the.service", NO_PROXY: "", OTELCOL_PATH: "/opt/otelcol" };
  expect(await called(settings, env)).toMatchObject({ ...env, HEALTH_LISTEN: ":9598" });
});

test("the installed settings contain no address and no token, and say where the others are documented", async () => {
  const text = readFileSync(join(PACKAGING, "agent.env"), "utf8");
  expect((await called(text))["BACKEND_URL"]).toBe("");
  expect(text).toContain("/usr/share/doc/atherops-otel-agent/settings.md");
});
