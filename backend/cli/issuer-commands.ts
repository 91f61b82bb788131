// `atherops issuers`, and issuers in `atherops apply`: issuers whose tokens enrol clusters and hosts, send or read without a secret of this
// backend. Their fields are those of the API, which validates them; a file identifies an issuer by its name.
import type { Command } from "commander";
import type { ApiResponses } from "../client/api.ts";
import type { Kind, Resource } from "./alerting-file.ts";
import { storedAt } from "./alerting-file.ts";
import { WrongUsage } from "./cli-error.ts";
import { collect, LIMIT_HELP, toLabelLimits } from "./named-resources.ts";
import { addList, addRemoval, type Console } from "./output.ts";
import { readInput } from "./text-files.ts";

const ISSUERS = "/api/issuers";

export const issuerKind: Kind = {
  section: "issuers",
  noun: "issuer",
  nameOf: ({ name }) => String(name),
  read: (fields) => ({
    name: fields.text("name"),
    issuer: fields.text("issuer"),
    audience: fields.text("audience", ""),
    jwks: fields.any("jwks") ?? null,
    rules: fields.any("rules") ?? [],
  }),
  list: async (client) =>
    (await client.rows(ISSUERS)).map(({ id, name, issuer, audience, jwks, rules }) => ({
      id: String(id),
      name: String(name),
      resource: { name, issuer, audience, jwks, rules },
    })),
  isSame: (field, _existing, desired) => field === "audience" && desired === "",
  ...storedAt(ISSUERS, (_client, { audience, ...rest }: Resource) => ({ ...rest, ...(audience !== "" && { audience }) })),
};

const EXAMPLES = `
The command prints the audience that tokens need; it contains the id of your organisation. A second rule needs \`atherops apply\`. Examples:
  kubectl get --raw /openid/v1/jwks | atherops issuers create prod --issuer https://kubernetes.default.svc.cluster.local --jwks - \\
    --claim sub=system:serviceaccount:telemetry:agent-cluster-agent --permit enrol_cluster --as prod
  atherops issuers create github --issuer https://token.actions.githubusercontent.com --claim repository=example/shop --permit send
  atherops export issuers > issuers.yaml`;

interface CreateOptions {
  readonly issuer: string;
  readonly jwks?: string;
  readonly audience?: string;
  readonly claim: readonly string[];
  readonly permit: string;
  readonly as?: string;
  readonly nameClaim?: string;
  readonly limit: readonly string[];
}

export function addIssuerCommands(program: Command, console: Console): void {
  const issuers = program.command("issuers").description("trusted issuers: clusters and programs that prove who they are without a secret");
  addList(issuers, console, {
    description: "trusted issuers, the audience that their tokens need, and what their rules permit",
    path: ISSUERS,
    columns: ["name", "issuer", "audience", "permits", "keys", "keys_fetched_at", "id"],
    toCells: (row) => ({ ...row, permits: (row["rules"] as { permit: string }[]).map(({ permit }) => permit).join(",") }),
  });
  issuers
    .command("create <name>")
    .description("trust an issuer with one rule; prints the audience that its tokens need")
    .requiredOption("--issuer <url>", "the claim iss of its tokens")
    .option("--jwks <file>", "its public keys as JSON, or - for standard input; by default, the backend fetches them")
    .option("--audience <text>", "contains the id of your organisation; default atherops:<id>")
    .requiredOption("--claim <name=text>", "a claim that tokens must have; * matches any characters; repeatable", collect, [])
    .requiredOption("--permit <what>", "enrol_cluster, enrol_host, send or read")
    .option("--as <name>", "name of the cluster or host, or `node` of the data")
    .option("--name-claim <claim>", "the claim with that name")
    .option("--limit <label=values>", LIMIT_HELP, collect, [])
    .addHelpText("after", EXAMPLES)
    .action(async (name: string, options: CreateOptions) => {
      const body = await toBody(name, options, console);
      const created = await console.call<ApiResponses["POST /api/issuers"]>("POST", ISSUERS, { body });
      console.result(
        created.audience,
        `trusted issuer ${name} (${created.id}) created; its tokens need the audience ${created.audience}`,
        created,
      );
    });
  addRemoval(
    issuers,
    console,
    "remove an issuer; its tokens are normally refused within 5 seconds, enrolled clusters and hosts keep their keys",
    (id) => `${ISSUERS}/${id}`,
  );
}

async function toBody(
  name: string,
  { jwks, claim, permit, as, nameClaim, limit, ...rest }: CreateOptions,
  console: Console,
): Promise<object> {
  const claims = Object.fromEntries(
    claim.map((text) => {
      const at = text.indexOf("=");
      if (at < 1) throw new WrongUsage(`--claim ${text}: must be name=text, such as sub=system:serviceaccount:telemetry:agent`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
  const label_limits = toLabelLimits(limit);
  const named = { ...(as !== undefined && { name: as }), ...(nameClaim !== undefined && { name_claim: nameClaim }) };
  const rule = { claims, permit, ...named, ...(label_limits && { label_limits }) };
  return { name, ...rest, ...(jwks !== undefined && { jwks: await readKeys(jwks, console) }), rules: [rule] };
}

async function readKeys(file: string, { world }: Console): Promise<unknown> {
  const text = await readInput(file, world.stdin);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WrongUsage(`--jwks ${file}: not JSON: ${(cause as Error).message}`);
  }
}
