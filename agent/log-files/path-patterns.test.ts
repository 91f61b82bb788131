import { describe, expect, test } from "vitest";
import { PathPatterns } from "./path-patterns.ts";

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

  test("name the folders where a walk begins, and those in which a file can match", () => {
    const patterns = new PathPatterns(["/var/log/**/*.log", "/var/log/*.txt", "/srv/app/x.log"]);
    expect(patterns.roots.map(({ folder }) => folder)).toEqual(["/var/log", "/srv/app"]);
    expect(["/var/log", "/var/log/a/b", "/srv/app"].map((folder) => patterns.canMatchBelow(folder))).toEqual([true, true, true]);
    expect(["/", "/var", "/srv", "/srv/app/x"].map((folder) => patterns.canMatchBelow(folder))).toEqual([false, false, false, false]);
  });
});
