// `atherops read-tokens`: tokens that read for months, and what to enter into Grafana with them. Invariant: a token goes to stdout alone and
// is never an argument.
import type { Command } from "commander";
import { addRemoval, type Console } from "./output.ts";

const EXAMPLES = `
It reads metrics, logs, traces and alert rules of your organisation, and changes nothing. It goes on after the user who made it is
removed; \`atherops read-tokens remove <id>\` ends it. Examples:
  atherops read-tokens create grafana
  atherops read-tokens create nightly-report --ttl 30d > read-token

In Grafana: Connections, Add new data source, Prometheus. Enter there:
  Prometheus server URL   <address of the backend>/query/prometheus
  Authentication          Basic authentication; any user, and the token as the password
In a shell, with the token in a file:
  printf 'Authorization: Bearer %s' "$(cat read-token)" | curl -H @- '<address>/query/logs?limit=1'`;

export function addReadTokenCommands(program: Command, console: Console): void {
  const tokens = program.command("read-tokens").description("read tokens: read access for Grafana and programs, for months");
  tokens
    .command("list", { isDefault: true })
    .description("tokens, who created them and when they expire; a token itself is shown only when it is created")
    .action(async () =>
      console.print(await console.client().all("/api/read-tokens"), ["name", "expires_at", "created_by", "created_at", "id"]),
    );
  tokens
    .command("create <name>")
    .description("create a token; it goes to stdout, and Grafana's data source settings to stderr")
    .option("--ttl <duration>", "lifetime, such as 12h or 30d, at most 1y", "90d")
    .addHelpText("after", EXAMPLES)
    .action(async (name: string, { ttl }: { ttl: string }) => {
      const client = console.client();
      const made = await client.call<{ id: string; token: string; expires_at: string }>("POST", "/api/read-tokens", {
        body: { name, ttl },
      });
      console.result(made.token, toEnter(client.address, name, made), { ...made });
    });
  addRemoval(tokens, console, "remove a token; refused everywhere within 5 seconds", (id) => `/api/read-tokens/${id}`);
}

function toEnter(address: string, name: string, { id, expires_at }: { id: string; expires_at: string }): string {
  return `read token ${name} (${id}) made, for reading until ${expires_at}; it is not shown again
In Grafana: Connections, Add new data source. Enter there, with the address by which Grafana reaches the backend:
  Prometheus server URL   ${address}/query/prometheus
  Loki URL                ${address}/query/loki
  Jaeger URL              ${address}/query/jaeger
  Alertmanager URL        ${address}/alerting/alertmanager, implementation Prometheus
  Authentication          Basic authentication
  User                    any, such as atherops
  Password                the token`;
}
