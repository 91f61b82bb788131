// `atherops ingest-tokens` manages tokens that programs use to send telemetry; `atherops read-tokens` manages long-lived tokens for
// reading, and prints what to enter into Grafana. Invariant: a token is only printed to stdout, and is never an argument.
import type { ApiResponses } from "../client/api.ts";
import type { Command } from "commander";
import { collect, LIMIT_HELP, limitsText, toLabelLimits } from "./named-resources.ts";
import { addList, addRemoval, type Console } from "./output.ts";

const INGEST_EXAMPLES = `
The backend accepts ingest tokens if its operator set INGEST_TOKENS=true. Examples:
  atherops ingest-tokens create ci --signals logs,traces --ttl 90d > token
  atherops ingest-tokens create edge --network 10.20.0.0/16 --network 2001:db8::/32
  atherops ingest-tokens create db-1 --host <id of a host>

To use the token in an OpenTelemetry SDK, set two environment variables:
  OTEL_EXPORTER_OTLP_ENDPOINT=<address of the backend>
  OTEL_EXPORTER_OTLP_HEADERS="x-api-key=$(cat token)"`;

interface CreateOptions {
  readonly signals?: string;
  readonly host?: string;
  readonly cluster?: string;
  readonly network: readonly string[];
  readonly bytesPerSecond?: string;
  readonly recordsPerSecond?: string;
  readonly ttl?: string;
}

type Created = ApiResponses["POST /api/ingest-tokens"];

export function addIngestTokenCommands(program: Command, console: Console): void {
  const tokens = program.command("ingest-tokens").description("ingest tokens: for programs that send telemetry without an agent");
  addList(tokens, console, {
    description: "tokens, the signals that they may send, and when they were last used; a token itself is shown only when it is created",
    path: "/api/ingest-tokens",
    columns: ["name", "signals", "networks", "created_at", "last_used_at", "expires_at", "previous_valid_until", "id"],
    toCells: (row) => ({ ...row, signals: String(row["signals"]), networks: String(row["networks"]) }),
  });
  tokens
    .command("create <name>")
    .description(
      "create a token; prints only the token to stdout; <name> becomes the `node` of its data, unless --host or --cluster is given",
    )
    .option("--signals <list>", "signals that it may send: metrics, logs, traces, separated by commas; default all")
    .option("--host <id>", "store its data as that of this host")
    .option("--cluster <id>", "store its data as that of this cluster")
    .option("--network <cidr>", "an IP address or CIDR from which it may be used; repeatable", collect, [])
    .option("--bytes-per-second <number>", "limit per signal; default: only the organisation's limit")
    .option("--records-per-second <number>", "limit per signal; default: only the organisation's limit")
    .option("--ttl <duration>", "lifetime, such as 12h, 90d or 1y; `never` for a token that does not expire", "90d")
    .addHelpText("after", INGEST_EXAMPLES)
    .action(async (name: string, { signals, network: networks, bytesPerSecond, recordsPerSecond, ttl, ...rest }: CreateOptions) => {
      const body = {
        name,
        networks,
        ...rest,
        ...(ttl !== "never" && { ttl }),
        ...(signals !== undefined && { signals: signals.split(",") }),
        ...(bytesPerSecond !== undefined && { bytes_per_second: Number(bytesPerSecond) }),
        ...(recordsPerSecond !== undefined && { records_per_second: Number(recordsPerSecond) }),
      };
      const created = await console.call<Created>("POST", "/api/ingest-tokens", { body });
      await noteNamesakes(console, created);
      console.result(created.token, `ingest token ${name} (${created.id}) created, ${validity(created)}; it is not shown again`, created);
    });
  tokens
    .command("rotate <id>")
    .description("replace the secret of a token; the previous one is accepted until the overlap ends")
    .option("--overlap <duration>", "how long the previous secret is accepted, such as 0 or 24h", "24h")
    .option("--ttl <duration>", "lifetime of the new secret; default: that of the current one")
    .action(async (id: string, body: { overlap: string; ttl?: string }) => {
      const path = `/api/ingest-tokens/${encodeURIComponent(id)}/rotate`;
      const rotated = await console.call<ApiResponses["POST /api/ingest-tokens/{id}/rotate"]>("POST", path, { body });
      const note = `ingest token ${rotated.name} rotated, ${validity(rotated)}; the previous secret is accepted until ${rotated.previous_valid_until}`;
      console.result(rotated.token, note, rotated);
    });
  addRemoval(tokens, console, "remove a token; normally refused everywhere within 5 seconds", (id) => `/api/ingest-tokens/${id}`);
}

/** Only their ids distinguish tokens with the same name. */
async function noteNamesakes(console: Console, { id, name }: Pick<Created, "id" | "name">): Promise<void> {
  const others = (await console.client().rows("/api/ingest-tokens")).filter((row) => row["name"] === name && row["id"] !== id);
  if (others.length > 0)
    console.note(`other tokens have the name ${name}, and their data the same node: ${others.map((row) => String(row["id"])).join(", ")}`);
}

function validity({ expires_at }: Created): string {
  return expires_at === null ? "valid until it is removed" : `valid until ${expires_at}`;
}

const READ_EXAMPLES = `
A read token can read your organisation's metrics, logs, traces and alert rules, but cannot change anything. It stays valid after the
user who created it is removed; \`atherops read-tokens remove <id>\` revokes it. Examples:
  atherops read-tokens create grafana
  atherops read-tokens create nightly-report --ttl 30d > read-token
  atherops read-tokens create team-shop --limit k8s.namespace.name=shop,web

In Grafana, open Connections, Add new data source, Prometheus, and enter:
  Prometheus server URL   <address of the backend>/query/prometheus
  Authentication          Basic authentication; any user, and the token as the password
In a shell, with the token in a file:
  printf 'Authorization: Bearer %s' "$(cat read-token)" | curl -H @- '<address>/query/logs?limit=1'`;

export function addReadTokenCommands(program: Command, console: Console): void {
  const tokens = program.command("read-tokens").description("read tokens: long-lived read access for Grafana and programs");
  addList(tokens, console, {
    description: "tokens, who created them and when they expire; a token itself is shown only when it is created",
    path: "/api/read-tokens",
    columns: ["name", "expires_at", "created_by", "created_at", "limits", "id"],
    toCells: (row) => ({ ...row, limits: limitsText(row["label_limits"]) }),
  });
  tokens
    .command("create <name>")
    .description("create a token; prints the token to stdout and Grafana's data source settings to stderr")
    .option("--ttl <duration>", "lifetime, such as 12h or 30d, at most 1y", "90d")
    .option("--limit <label=values>", LIMIT_HELP, collect, [])
    .addHelpText("after", READ_EXAMPLES)
    .action(async (name: string, { ttl, limit }: { ttl: string; limit: readonly string[] }) => {
      const label_limits = toLabelLimits(limit);
      const client = console.client();
      const created = await client.call<{ id: string; token: string; expires_at: string }>("POST", "/api/read-tokens", {
        body: { name, ttl, ...(label_limits && { label_limits }) },
      });
      console.result(created.token, grafanaSettings(client.address, name, created), created);
    });
  addRemoval(tokens, console, "remove a token; normally refused everywhere within 5 seconds", (id) => `/api/read-tokens/${id}`);
}

function grafanaSettings(address: string, name: string, { id, expires_at }: { id: string; expires_at: string }): string {
  return `read token ${name} (${id}) created, valid until ${expires_at}; it is not shown again
In Grafana: Connections, Add new data source. Enter these settings, with the URL at which Grafana reaches the backend:
  Prometheus server URL   ${address}/query/prometheus
  Loki URL                ${address}/query/loki
  Jaeger URL              ${address}/query/jaeger
  Alertmanager URL        ${address}/alerting/alertmanager, implementation Prometheus
  Authentication          Basic authentication
  User                    any, such as atherops
  Password                the token`;
}
