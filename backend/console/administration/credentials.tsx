// What may send and read for the organisation: keys for direct ingest, install tokens, read tokens. A secret is shown once, when it is made.
import { useSignal } from "@preact/signals";
import { Command } from "../parts/common.tsx";
import { call } from "../state/api.ts";
import { moment } from "../state/time.ts";
import { Make, Things } from "./table.tsx";

interface Key {
  readonly key_id: string;
  readonly name: string;
  readonly created_at: string;
  readonly first_used_at: string | null;
}

interface InstallToken {
  readonly id: string;
  readonly created_at: string;
  readonly expires_at: string;
  readonly used_at: string | null;
}

interface ReadToken {
  readonly id: string;
  readonly name: string;
  readonly created_by: string;
  readonly expires_at: string;
}

export function Credentials() {
  return (
    <>
      <ReadTokens />
      <Keys />
      <Things<InstallToken>
        title="Install tokens"
        path="/api/install-tokens"
        idOf={(row) => row.id}
        columns={[
          { name: "made", of: (row) => moment(row.created_at) },
          { name: "expires", of: (row) => moment(row.expires_at) },
          { name: "used", of: (row) => (row.used_at ? moment(row.used_at) : "not yet") },
        ]}
        removal={(row) => (row.used_at ? undefined : "It can no longer enrol anybody.")}
      />
    </>
  );
}

function Keys() {
  const made = useSignal<string | undefined>(undefined);
  return (
    <>
      <Things<Key>
        title="Keys for direct ingest"
        path="/api/keys"
        idOf={(row) => row.key_id}
        columns={[
          { name: "name", of: (row) => row.name },
          { name: "made", of: (row) => moment(row.created_at) },
          { name: "first used", of: (row) => (row.first_used_at ? moment(row.first_used_at) : "not yet") },
        ]}
        removal={(row) => `Whatever signs with ${row.name} is refused within 5 seconds.`}
        form={(reload) => (
          <Make
            label="Make key"
            onMake={async ({ name }) => {
              made.value = (await call<{ api_key: string }>("/api/keys", { method: "POST", body: { name } })).api_key;
              reload();
            }}
          >
            <label>
              Name
              <input name="name" required autoComplete="off" />
            </label>
          </Make>
        )}
      />
      {made.value && <Command label="The key, shown this once" text={made.value} />}
    </>
  );
}

function ReadTokens() {
  const made = useSignal<string | undefined>(undefined);
  return (
    <>
      <Things<ReadToken>
        title="Read tokens, for Grafana and programs"
        path="/api/read-tokens"
        idOf={(row) => row.id}
        columns={[
          { name: "name", of: (row) => row.name },
          { name: "made by", of: (row) => row.created_by },
          { name: "expires", of: (row) => moment(row.expires_at) },
        ]}
        removal={(row) => `Whatever reads with ${row.name} is refused within 5 seconds.`}
        form={(reload) => (
          <Make
            label="Make token"
            onMake={async ({ name, ttl }) => {
              made.value = (await call<{ token: string }>("/api/read-tokens", { method: "POST", body: { name, ttl } })).token;
              reload();
            }}
          >
            <label>
              Name
              <input name="name" required autoComplete="off" />
            </label>
            <label>
              Good for
              <select name="ttl">
                {["90d", "30d", "7d", "24h", "1y"].map((ttl) => (
                  <option key={ttl}>{ttl}</option>
                ))}
              </select>
            </label>
          </Make>
        )}
      />
      {made.value && (
        <Command
          label={`The token, shown this once. Grafana's Prometheus data source: ${location.origin}/query/prometheus, Jaeger: ${location.origin}/query/jaeger`}
          text={made.value}
        />
      )}
    </>
  );
}
