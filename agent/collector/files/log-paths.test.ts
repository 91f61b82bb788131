import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logFileRules, type LogPathRules, whyRefused, PathPatterns } from "./log-paths.ts";

let root: string;
let rules: LogPathRules;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-paths-"));
  for (const folder of ["real-log/app", "agent", "secret"]) mkdirSync(join(root, folder), { recursive: true });
  symlinkSync(join(root, "real-log"), join(root, "log"));
  writeFileSync(join(root, "secret/shadow"), "root:x");
  writeFileSync(join(root, "agent/credentials.json"), "{}");
  writeFileSync(join(root, "real-log/app/good.log"), "fine\n");
  symlinkSync(join(root, "secret/shadow"), join(root, "real-log/evil.log"));
  symlinkSync(join(root, "secret/shadow"), join(root, "real-log/README"));
  symlinkSync(join(root, "real-log/app/good.log"), join(root, "real-log/inner.log"));
  symlinkSync(join(root, "agent"), join(root, "real-log/app/own"));
  rules = { allowed: [`${root}/log/**`], forbidden: [join(root, "agent")] };
});
afterAll(() => rmSync(root, { recursive: true }));

describe("a log path", () => {
  test.each(["log/app/good.log", "log/**/*.log", "log/inner.log", "log/not-there-yet.log"])("%s is accepted", (path) => {
    expect(whyRefused(`${root}/${path}`, rules)).toBeUndefined();
  });

  test.each([
    ["secret/shadow", "outside LOG_PATHS_ALLOWED"],
    ["log/evil.log", "leads to a file"],
    ["log/app/own/credentials.json", "leads to a file"],
    ["log/../secret/shadow", 'without ".."'],
    ["log/{a,/etc/shadow}", "only the wildcards"],
    ["**", "outside LOG_PATHS_ALLOWED"],
    // oxlint-disable-next-line no-template-curly-in-string
    ["log/${file:/etc/shadow}", "only the wildcards"],
  ])("%s is rejected: %s", (path, why) => {
    expect(whyRefused(`${root}/${path}`, rules)).toContain(why);
  });

  test("/etc/shadow itself is rejected", () => {
    expect(whyRefused("/etc/shadow", rules)).toContain("outside");
    expect(whyRefused("etc/shadow", rules)).toContain("absolute");
  });
});

describe("a file that was found", () => {
  const real = (path: string): string => join(root, path);

  test("is validated by its real path", () => {
    const { mayRead, mayEnter } = logFileRules({ ...rules, allowed: [...rules.allowed, `${root}/own/*.log`] });
    expect(mayRead(real("real-log/app/good.log"))).toBe(true);
    expect(mayRead(real("own/x.log.1"))).toBe(true);
    for (const path of ["secret/shadow", "agent/credentials.json", "own/x.txt"]) expect(mayRead(real(path))).toBe(false);
    expect([mayEnter(real("real-log")), mayEnter(real("real-log/app"))]).toEqual([true, true]);
    expect([mayEnter(root), mayEnter(real("agent")), mayEnter("/")]).toEqual([false, false, false]);
  });
});

describe("patterns of paths", () => {
  test.each([
    ["/var/log/**/*.log", "/var/log/a.log"],
    ["/var/log/**/*.log", "/var/log/app/.old/b.log"],
    ["/var/log/**", "/var/log/a/b"],
    ["/var/log/syslog", "/var/log/syslog"],
    ["/var/log/*/current/*.log", "/var/log/app/current/x.log"],
    ["/var/log/app?.log", "/var/log/app1.log"],
    ["/var/log/app[0-9].log", "/var/log/app7.log"],
    ["/var/log/app[!0-9].log", "/var/log/appx.log"],
    ["/srv/$odd (1)+.txt", "/srv/$odd (1)+.txt"],
    ["/*.log", "/a.log"],
    ["/**/a/**/b.log", "/x/a/y/z/b.log"],
  ])("%s matches %s", (pattern, path) => {
    expect(new PathPatterns([pattern]).matches(path)).toBe(true);
  });

  test.each([
    ["/var/log/**/*.log", "/var/log/a.txt"],
    ["/var/log/*.log", "/var/log/app/a.log"],
    ["/var/log/*.log", "/var/logs/a.log"],
    ["/var/log/app?.log", "/var/log/app.log"],
    ["/var/log/app[!0-9].log", "/var/log/app7.log"],
    ["/srv/a.log", "/srv/aXlog"],
    ["/var/log/**", "/var/log"],
  ])("%s does not match %s", (pattern, path) => {
    expect(new PathPatterns([pattern]).matches(path)).toBe(false);
  });

  test("return the folders where a walk starts, and those that can contain a match", () => {
    const patterns = new PathPatterns(["/var/log/**/*.log", "/var/log/*.txt", "/srv/app/x.log"]);
    expect(patterns.roots.map(({ folder }) => folder)).toEqual(["/var/log", "/srv/app"]);
    expect(["/var/log", "/var/log/a/b", "/srv/app"].map((folder) => patterns.canMatchBelow(folder))).toEqual([true, true, true]);
    expect(["/", "/var", "/srv", "/srv/app/x"].map((folder) => patterns.canMatchBelow(folder))).toEqual([false, false, false, false]);
  });
});
