// Kinds of settings that only the agent has, such as the backend's URL, globs of log files and the kubelet's certificate. The message for an
// invalid value describes valid ones.
import { resolve } from "node:path";
import { readCertificates } from "../common/files.ts";
import { isLoopback } from "../common/ip-networks.ts";
import { checkedList, list, listen, type ListenAddress, splitList } from "../common/settings-kinds.ts";
import type { Kind } from "../common/settings-table.ts";

/** An origin without a trailing slash. */
export const backendUrl: Kind<string> = {
  type: "URL",
  parse: (value, report) => {
    const url = URL.parse(value);
    if (!url || !/^https?:$/.test(url.protocol)) {
      report("not an http or https URL");
      return "";
    }
    if (url.username || url.password || url.search || url.hash || url.pathname !== "/")
      report("must have only scheme, host and port, such as https://telemetry.example:8443");
    return url.origin;
  },
};

export const loopback: Kind<ListenAddress> = {
  type: "host:port",
  parse: (value, report) => {
    const address = listen().parse(value, report);
    if (!isLoopback(address.host)) report("must be a loopback address: every client that reaches it has its telemetry signed");
    return address;
  },
};

export const absolutePaths: Kind<string[]> = checkedList("comma-separated globs", (path) =>
  path.startsWith("/") && !path.split("/").includes("..") ? undefined : `"${path}" is not an absolute path without ".."`,
);

/** A list of some of `values`, returned in their order. */
export function someOf<const T extends string>(values: readonly T[]): Kind<T[]> {
  return {
    type: "comma-separated list",
    range: { values },
    parse: (value, report) => {
      const items: readonly string[] = list.parse(value, report);
      for (const item of items) if (!values.some((known) => known === item)) report(`"${item}" is not one of ${values.join(", ")}`);
      if (items.length === 0) report(`must contain at least one of ${values.join(", ")}`);
      return values.filter((known) => items.includes(known));
    },
  };
}

/** The absolute path of a file that has certificates in PEM format now. */
export const pemFile: Kind<string> = {
  type: "file",
  parse: (value, report) => {
    try {
      readCertificates(value);
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      report(`${value} ${code.startsWith("ERR_") ? "has no valid certificate in PEM format" : `cannot be read: ${code}`}`);
    }
    return resolve(value);
  },
};

/** `verify`, `skip`, or the absolute path of a PEM file. */
export const kubeletTls: Kind<string> = {
  type: "word or PEM file",
  range: { values: ["verify", "skip"] },
  parse: (value, report) => (value === "verify" || value === "skip" ? value : pemFile.parse(value, report)),
};

/** The collector's expressions are RE2, so RE2's leading flags and named groups are accepted too. */
export const pattern: Kind<string> = {
  type: "regular expression",
  parse: (value, report) => {
    if (!expressionOf(value)) report("not a regular expression");
    return value;
  },
};

export const lines: Kind<string[]> = { type: "one per line", parse: (value) => splitList(value, "\n") };

export const patterns: Kind<string[]> = {
  type: "regular expressions, one per line",
  parse: (value, report) => {
    const expressions = splitList(value, "\n");
    for (const expression of expressions) {
      const parsed = expressionOf(expression);
      if (!parsed) report(`"${expression}" is not a regular expression`);
      // It would be replaced between all characters of a line.
      else if (parsed.test("")) report(`"${expression}" matches empty text`);
    }
    return expressions;
  },
};

export const percent: Kind<number> = {
  type: "number",
  range: { above: 0, max: 100 },
  parse: (value, report) => {
    const number = Number(value);
    if (!(number > 0 && number <= 100)) report("must be a number above 0, at most 100");
    return number;
  },
};

function expressionOf(text: string): RegExp | undefined {
  try {
    return RegExp(text.replace(/^\(\?[imsU]+\)/, "").replaceAll("(?P<", "(?<"));
  } catch {
    return undefined;
  }
}
