// Credentials of the organisation: read tokens, ingest tokens, keys for direct ingest and install tokens. A secret is shown once, when it is
// created.
import type { ApiResponses } from "../../client/api.ts";
import { CopyBlock, dataSources, sdkEnvironment } from "../parts/index.ts";
import { timestampText } from "../state/time.ts";
import { LIMITS_FIELD, limitsOf, limitsText } from "./label-limits.tsx";
import { timeColumn, ResourceList } from "./resource-list.tsx";

type Key = ApiResponses["GET /api/keys"][number];
type InstallToken = ApiResponses["GET /api/install-tokens"][number];
type IngestToken = ApiResponses["GET /api/ingest-tokens"][number];
type ReadToken = ApiResponses["GET /api/read-tokens"][number];

const NAME = { name: "name", label: "Name" };

export function Credentials() {
  return (
    <>
      <ReadTokens />
      <IngestTokens />
      <Keys />
      <ResourceList<InstallToken>
        title="Install tokens"
        path="/api/install-tokens"
        nameOf={(row) => `the token of ${timestampText(row.created_at)}`}
        columns={[
          timeColumn("created", (row) => row.created_at),
          timeColumn("expires", (row) => row.expires_at),
          timeColumn("used", (row) => row.used_at),
        ]}
        removal={(row) => (row.used_at ? undefined : "Agents can no longer register with this token.")}
      />
    </>
  );
}

function IngestTokens() {
  return (
    <ResourceList<IngestToken>
      title="Ingest tokens for OpenTelemetry SDKs and collectors"
      path="/api/ingest-tokens"
      columns={[
        { head: "name", cell: (row) => row.name },
        { head: "signals", cell: (row) => row.signals.join(", ") },
        { head: "allowed from", cell: (row) => row.networks.join(", ") || "anywhere" },
        { head: "created by", cell: (row) => row.created_by },
        // Tokens may have the same name; these times tell them apart.
        timeColumn("created", (row) => row.created_at),
        timeColumn("last used", (row) => row.last_used_at),
        timeColumn("expires", (row) => row.expires_at, "never"),
      ]}
      removal={(row) => `Requests with ${row.name} are refused within 5 seconds.`}
      rotationPath={({ id }) => `/api/ingest-tokens/${id}/rotate`}
      createForm={{
        label: "Create ingest token",
        fields: [
          NAME,
          { name: "signals", label: "Signals", choices: ["all signals", "metrics", "logs", "traces"] },
          { name: "ttl", label: "Lifetime", choices: ["90d", "30d", "24h", "1y", "no expiry"] },
        ],
        bodyOf: ({ name, signals, ttl }) => ({
          name,
          ...(signals !== "all signals" && { signals: [signals] }),
          ...(ttl !== "no expiry" && { ttl }),
        }),
        secret: {
          name: "token",
          label: "Token, not shown again",
          more: (token) => (
            <CopyBlock label="Environment of a program with an OpenTelemetry SDK" text={sdkEnvironment(location.origin, token)} />
          ),
        },
      }}
    />
  );
}

function Keys() {
  return (
    <ResourceList<Key>
      title="Keys for direct ingest"
      path="/api/keys"
      idOf={(row) => row.key_id}
      columns={[
        { head: "name", cell: (row) => row.name },
        timeColumn("created", (row) => row.created_at),
        timeColumn("first used", (row) => row.first_used_at),
      ]}
      removal={(row) => `Requests signed with ${row.name} are refused within 5 seconds.`}
      createForm={{ label: "Create key", fields: [NAME], secret: { name: "api_key", label: "Key, not shown again" } }}
    />
  );
}

function ReadTokens() {
  return (
    <ResourceList<ReadToken>
      title="Read tokens for Grafana and programs"
      path="/api/read-tokens"
      columns={[
        { head: "name", cell: (row) => row.name },
        { head: "limits", cell: (row) => limitsText(row.label_limits) },
        { head: "created by", cell: (row) => row.created_by },
        timeColumn("expires", (row) => row.expires_at),
      ]}
      removal={(row) => `Requests with ${row.name} are refused within 5 seconds.`}
      createForm={{
        label: "Create read token",
        fields: [NAME, { name: "ttl", label: "Lifetime", choices: ["90d", "30d", "7d", "24h", "1y"] }, LIMITS_FIELD],
        bodyOf: ({ name, ttl, limits }) => ({ name, ttl, ...limitsOf(limits) }),
        secret: {
          name: "token",
          label: "Token, not shown again",
          more: (token) => (
            <CopyBlock label="Grafana: /etc/grafana/provisioning/datasources/atherops.yaml" text={dataSources(location.origin, token)} />
          ),
        },
      }}
    />
  );
}
