// The kinds of settings that only the agent has: addresses of a backend and of proxies, paths, programs, what Kubernetes sets. Invariant:
// each problem names its variable and what to write instead.
import { homedir } from "node:os";
import { join } from "node:path";
import { isLoopback } from "../common/host-name.ts";
import { type ListenAddress, SettingsReader } from "../common/settings-reader.ts";

export class AgentSettingsReader extends SettingsReader {
  backendUrl(name: string, allowPlainHttp: boolean): string {
    const text = this.required(name);
    if (text === "") return "";
    const url = URL.parse(text);
    if (!url || !/^https?:$/.test(url.protocol)) {
      this.problem(`${name}: not an http or https URL`);
      return "";
    }
    if (url.username || url.password || url.search || url.hash || url.pathname !== "/") {
      this.problem(`${name}: scheme, host and port only, such as https://telemetry.example:8443`);
    }
    if (url.protocol === "http:" && !isLoopback(url.hostname) && !allowPlainHttp) {
      this.problem(`${name}: plain http would send telemetry readable by anyone on the way: use https, or set ALLOW_PLAIN_HTTP=true`);
    }
    return url.origin;
  }

  loopback(name: string, fallback: string): ListenAddress {
    const address = this.listen(name, fallback);
    if (!isLoopback(address.host)) this.problem(`${name}: must be a loopback address: whoever reaches it has its telemetry signed`);
    return address;
  }

  absolutePaths(name: string, fallback: string): string[] {
    const paths = this.text(name) === undefined ? [fallback] : this.list(name);
    for (const path of paths) {
      if (!path.startsWith("/") || path.split("/").includes("..")) this.problem(`${name}: "${path}" is not an absolute path without ".."`);
    }
    return paths;
  }

  /** Comma-separated; in the order of `values`, and all of them unless set. */
  someOf<const T extends string>(name: string, values: readonly T[]): T[] {
    const given: readonly string[] = this.text(name) === undefined ? values : this.list(name);
    for (const item of given) {
      if (!values.some((value) => value === item)) this.problem(`${name}: "${item}" is not one of ${values.join(", ")}`);
    }
    if (given.length === 0) this.problem(`${name}: name at least one of ${values.join(", ")}`);
    return values.filter((value) => given.includes(value));
  }

  kubeletTls(name: string): string {
    const text = this.text(name) ?? "verify";
    return text === "verify" || text === "skip" ? text : (this.readableFile(name) ?? text);
  }

  kubernetesServer(): string {
    const host = this.required("KUBERNETES_SERVICE_HOST");
    const port = this.integer("KUBERNETES_SERVICE_PORT", 443, 1);
    return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
  }

  /** The collector's own are RE2: what JavaScript writes otherwise, leading flags and named groups, is no mistake. */
  pattern(name: string): string | undefined {
    const text = this.text(name);
    if (text !== undefined && !isExpression(text)) this.problem(`${name}: not a regular expression`);
    return text;
  }

  /** One a line. */
  lines(name: string): string[] {
    return (this.text(name) ?? "")
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  }

  /** One a line. */
  patterns(name: string): string[] {
    const patterns = this.lines(name);
    const wrong = patterns.find((pattern) => !isExpression(pattern));
    if (wrong !== undefined) this.problem(`${name}: "${wrong}" is not a regular expression`);
    return patterns;
  }

  /** Above 0, up to 100; 100 unless set. */
  percent(name: string): number {
    const value = Number(this.text(name) ?? 100);
    if (!(value > 0 && value <= 100)) this.problem(`${name}: must be a number above 0, at most 100`);
    return value;
  }

  /** Candidates in order of preference: what is given, else on PATH, else in the tool cache. */
  program(variable: string, name: string, version: string): string[] {
    const given = this.text(variable);
    const cache = this.plain("XDG_CACHE_HOME") ?? join(homedir(), ".cache");
    const onPath = (this.plain("PATH") ?? "").split(":").filter(Boolean);
    return given ? [given] : [...onPath.map((folder) => join(folder, name)), join(cache, "atherops", "tools", name, version, name)];
  }
}

function isExpression(text: string): boolean {
  try {
    RegExp(text.replace(/^\(\?[imsU]+\)/, "").replaceAll("(?P<", "(?<"));
    return true;
  } catch {
    return false;
  }
}
