// Connects programs that need no agent: programs with an OpenTelemetry SDK, Prometheus, and Grafana. Creates a token, shows the configuration
// with everything filled in, and then shows whether the token was used.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { ApiResponses } from "../../client/api.ts";
import { CopyBlock, Problem, Field, SavingForm, dataSources, remoteWrite, SDK_STARTS, sdkEnvironment } from "../parts/index.ts";
import { ApiFailure, call, wholeList, useLoaded, address, formReader } from "../state/index.ts";

const POLL_MS = 3000;
const TOKENS_DISABLED = "Ingest tokens are disabled. Start the backend with INGEST_TOKENS=true.";

export type ProgramKind = "sdk" | "prometheus" | "grafana";
const PROGRAMS: Readonly<Record<ProgramKind, string>> = { sdk: "the program", prometheus: "Prometheus", grafana: "Grafana" };

interface Token {
  readonly id: string;
  readonly token: string;
  readonly url: string;
}

export function AddProgram({ kind }: { kind: ProgramKind }) {
  const created = useSignal<Token | undefined>(undefined);
  const create = async (name: string, url: string): Promise<void> => {
    const path = kind === "grafana" ? "/api/read-tokens" : "/api/ingest-tokens";
    try {
      const response = await call<Omit<Token, "url">>(path, { method: "POST", body: { name, ttl: "90d" } });
      created.value = { ...response, url };
    } catch (failure) {
      if (failure instanceof ApiFailure && failure.status === 404) throw new Error(TOKENS_DISABLED, { cause: failure });
      throw failure;
    }
  };
  if (created.value) return <Configuration kind={kind} {...created.value} />;
  return (
    <TokenForm program={PROGRAMS[kind]} create={create}>
      <Field label="Token name" name="name" required defaultValue={kind} />
    </TokenForm>
  );
}

interface TokenFormProps {
  /** The program that uses the token, as in “reachable from Grafana”. */
  readonly program: string;
  /** `url` has no trailing slash. Throws an Error whose message is shown to the user. */
  readonly create: (name: string, url: string) => Promise<void>;
  /** The field called `name`, if there is one. */
  readonly children?: ComponentChildren;
}

/** Creates a token. It asks for the backend's address as the program reaches it, because the browser may use another one. */
export function TokenForm({ program, create, children }: TokenFormProps) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const typed = formReader(form);
    await create(typed("name"), typed("url").replace(/\/+$/, ""));
  };
  return (
    <SavingForm label="Create token" save={save}>
      {children}
      <Field label={`URL of this backend, as reachable from ${program}`} name="url" type="url" required defaultValue={location.origin} />
    </SavingForm>
  );
}

function Configuration({ kind, id, token, url }: Token & { kind: ProgramKind }) {
  return (
    <>
      <p>The token is not shown again. It expires in 90 days.</p>
      {kind === "sdk" && (
        <>
          <CopyBlock label="Environment of the program" text={sdkEnvironment(url, token)} />
          {SDK_STARTS.map(([language, text]) => (
            <CopyBlock key={language} label={language} text={text} />
          ))}
        </>
      )}
      {kind === "prometheus" && <CopyBlock label="Add to prometheus.yml, then reload Prometheus" text={remoteWrite(url, token)} />}
      {kind === "grafana" ? (
        <>
          <CopyBlock label="/etc/grafana/provisioning/datasources/atherops.yaml" text={dataSources(url, token)} />
          <p>Restart Grafana. “Save & test” of each data source then reports success.</p>
        </>
      ) : (
        <FirstData id={id} signal={kind === "sdk" ? "traces" : "metrics"} />
      )}
    </>
  );
}

function FirstData({ id, signal: screen }: { id: string; signal: "traces" | "metrics" }) {
  const loaded = useLoaded(
    id,
    async (signal) => {
      const { rows } = await wholeList<ApiResponses["GET /api/ingest-tokens"][number]>("/api/ingest-tokens", signal);
      return { isUsed: rows.some((row) => row.id === id && row.last_used_at !== null) };
    },
    { refreshMs: POLL_MS },
  );
  return (
    <ol class="steps" role="status">
      {loaded.value.value?.isUsed ? (
        <li class="is-done">
          <a href={address(screen)}>Data has arrived</a>
        </li>
      ) : (
        <li>Waiting for the first data …</li>
      )}
      <Problem message={loaded.error.value} />
    </ol>
  );
}
