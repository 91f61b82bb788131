// Defines the kinds of settings that only the backend has: addresses of engines, networks, mail, single sign-on, retention, keys. Each kind
// reports what to write instead of an invalid value.
import { durationMs } from "../common/duration.ts";
import { hostUrls, isLoopback, isNetwork } from "../common/ip-networks.ts";
import { checkedList, file, reportUnencoded, splitList } from "../common/settings-kinds.ts";
import type { Kind, Report } from "../common/settings-table.ts";
import { type LabelLimits, readLabelLimits } from "./admission/limited-labels.ts";

/** How long the metrics engine keeps samples. */
export interface Retention {
  /** In the format of VictoriaMetrics, e.g. `30d`. */
  readonly text: string;
  readonly ms: number;
}

/** Users in `group` belong to the organisation of this name. */
export interface GroupGrant {
  readonly group: string;
  readonly org: string;
  readonly role: "viewer" | "admin" | "operator";
  /** Set at each login; null: removed; undefined: as an administrator has set them. */
  readonly label_limits?: LabelLimits | null | undefined;
}

/** Checks the scheme, because `localhost:8428` also parses as a URL, with the scheme "localhost". */
export function url(schemes: readonly string[] = ["http", "https"], check?: (parsed: URL, report: Report) => void): Kind<string> {
  return {
    type: "URL",
    parse: (value, report) => {
      const parsed = URL.parse(value);
      if (!schemes.includes(parsed?.protocol.slice(0, -1) ?? "")) report(`must be a URL that begins with ${schemes.join(":// or ")}://`);
      if (parsed) check?.(parsed, report);
      return value;
    },
  };
}

/** One or more URLs, separated by commas. */
export const urls: Kind<string> = {
  ...url(),
  parse: (value, report) =>
    value
      .split(",")
      .map((part) => url().parse(part.trim(), report))
      .join(","),
};

export const quorum: Kind<string> = {
  type: "number or auto",
  parse: (value, report) => {
    if (!/^(auto|\d{1,2})$/.test(value)) report("must be auto, or how many replicas have an insert before it is answered");
    return value;
  },
};

/** `postgres://user@one:5432,other:5432/database`: the host that accepts writes is used. */
export const postgresUrl: Kind<string> = {
  type: "URL",
  parse: (value, report) => {
    for (const hostUrl of hostUrls(value)) url(["postgres", "postgresql"]).parse(hostUrl, report);
    const parameters = URL.parse(hostUrls(value)[0] ?? "")?.searchParams;
    // Without this, the driver's error when it connects would count as an unreachable database.
    for (const name of ["sslrootcert", "sslcert", "sslkey"]) {
      const certificateFile = parameters?.get(name);
      if (certificateFile) file.parse(certificateFile, (problem) => report(`${name}: ${problem}`));
    }
    return value;
  },
};

/** Identity providers and clients compare issuers character by character, so the text is kept. */
export const issuer: Kind<string> = url(undefined, (parsed, report) => {
  if (parsed.protocol === "http:" && !isLoopback(parsed.hostname)) report("must be https: over http anybody on the way can log in");
  reportParts(parsed, report);
});

const addressUrl = url(undefined, reportParts);
/** Without a trailing slash. */
export const publicUrl: Kind<string> = { ...addressUrl, parse: (value, report) => addressUrl.parse(value, report).replace(/\/+$/, "") };

function reportParts({ username, password, search, hash }: URL, report: Report): void {
  if (username || password || search || hash) report("scheme, host and path only");
}

export const smtpUrl: Kind<string> = url(["smtp", "smtps"], (parsed, report) => {
  if (!parsed.hostname || !["", "/"].includes(parsed.pathname) || parsed.search || parsed.hash)
    report("must be smtp(s)://[user:password@]host[:port]");
  reportUnencoded(parsed, report);
});

/** A map from groups to organisation and role, as JSON. */
export const groupGrants: Kind<GroupGrant[]> = {
  type: "JSON",
  parse: (value, report) => {
    const form = 'must be JSON such as {"platform": {"org": "default", "role": "viewer"}}; role: viewer, admin or operator';
    try {
      const map = JSON.parse(value) as Record<string, Omit<GroupGrant, "group">>;
      const grants = Object.entries(map).map(([group, grant]) => ({ ...grant, group }));
      if (Array.isArray(map) || !grants.every(isGrant)) report(form);
      if (!grants.every(hasValidLimits))
        report('label_limits: for viewers only, null or such as {"k8s.namespace.name": ["shop"]}, and no further members');
      return grants;
    } catch {
      report(form);
      return [];
    }
  },
};

function isGrant({ org, role }: GroupGrant): boolean {
  return typeof org === "string" && org !== "" && ["viewer", "admin", "operator"].includes(role);
}

/** A misspelt name would be no limit, so there are no unknown names. */
function hasValidLimits(grant: GroupGrant): boolean {
  const { role, label_limits } = grant;
  if (!Object.keys(grant).every((name) => ["group", "org", "role", "label_limits"].includes(name))) return false;
  if (label_limits === undefined || label_limits === null) return true;
  try {
    return role === "viewer" && readLabelLimits(JSON.stringify(label_limits)) !== undefined;
  } catch {
    return false;
  }
}

function networkList(...names: readonly string[]): Kind<string[]> {
  return checkedList("addresses or CIDRs, comma-separated", (item) =>
    names.includes(item) || isNetwork(item) ? undefined : `"${item}" is not an address or CIDR, such as 10.0.0.0/8`,
  );
}
export const networks = networkList();
/** Also accepts the names of ranges that Fastify knows. */
export const proxies = networkList("loopback", "linklocal", "uniquelocal");

export const emailAddress: Kind<string> = {
  type: "e-mail address",
  parse: (value, report) => {
    if (!/^[^\s@<>,;:"()[\]\\]{1,64}@[A-Za-z0-9.-]{1,253}$/.test(value))
      report("must be an e-mail address without a name, such as alerts@example.com");
    return value;
  },
};

/** In lower case. */
export const domains: Kind<string[]> = {
  type: "comma-separated list",
  parse: (value, report) => {
    const items = splitList(value.toLowerCase());
    for (const item of items) if (!/^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(item)) report(`"${item}" is not a domain`);
    return items;
  },
};

/** As VictoriaMetrics' `-retentionPeriod`: a number with h, d, w, M or y; without a unit, months of 31 days. */
export const retention: Kind<Retention> = {
  type: "retention (h, d, w, M, y)",
  parse: (text, report) => {
    const [, count, unit = ""] = /^(\d+(?:\.\d+)?)([hdwMy]?)$/.exec(text) ?? [];
    const ms = Number(count) * (durationMs(unit === "" || unit === "M" ? "31d" : `1${unit}`) ?? Number.NaN);
    if (!(ms > 0)) report(`"${text}" is not a retention such as 30d, 8w or 1y`);
    return { text, ms };
  },
};

export function base64(bytes: number): Kind<Buffer> {
  return {
    type: `${bytes} bytes in base64`,
    parse: (value, report) => {
      const decoded = Buffer.from(value, "base64");
      if (decoded.length !== bytes) report(`must be ${bytes} bytes in base64`);
      return decoded;
    },
  };
}

export function bytes(minimum: number): Kind<Buffer> {
  return {
    type: `at least ${minimum} bytes`,
    parse: (value, report) => {
      if (Buffer.byteLength(value) < minimum) report(`must be at least ${minimum} bytes`);
      return Buffer.from(value, "utf8");
    },
  };
}
