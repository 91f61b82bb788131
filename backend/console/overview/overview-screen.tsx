// The landing page: firing alerts, silent agents, services that got worse, how much data arrives, and what is not set up yet. Every figure
// links to the items that it counts.
import type { ComponentChildren } from "preact";
import { Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { bytesText } from "../../client/text.ts";
import { counted, visible } from "../parts/text.ts";
import { useRefresh } from "../parts/time-picker.tsx";
import { entityAddress } from "../entities/entity.ts";
import { ThisMachine } from "../fleet/this-machine.tsx";
import { ServiceTable } from "../services/service-table.tsx";
import { type Loaded, useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { mayWrite } from "../state/session.ts";
import { ago } from "../state/time.ts";
import {
  type Agents,
  type Alerting,
  readAgents,
  readAlerting,
  readStored,
  readWorstServices,
  SHOWN,
  type Stored,
  type Volume,
} from "./read.ts";

const REFRESH_MS = 30_000;

export function Overview() {
  const alerting = useLoaded("alerting", readAlerting, { refreshMs: REFRESH_MS });
  const agents = useLoaded("agents", readAgents, { refreshMs: REFRESH_MS });
  const stored = useLoaded("stored", readStored, { refreshMs: REFRESH_MS });
  const reload = (): void => {
    for (const part of [alerting, agents, stored]) part.reload();
  };
  useRefresh(reload);
  return (
    <section class="screen overview" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Overview</h1>
      </div>
      <ThisMachine onReady={reload} />
      <SetUp alerting={alerting.value.value} agents={agents.value.value?.count} signals={stored.value.value?.signals} />
      <div class="cards">
        <Card title="Alerts" href={address("alerts", { view: "firing" })} of={alerting}>
          {(shown) => <Firing {...shown} />}
        </Card>
        <Card title="Agents" href={address("fleet")} of={agents}>
          {(shown) => <AgentFigures {...shown} />}
        </Card>
        <Card title="Stored today" href={address("settings", { part: "usage" })} of={stored}>
          {({ volume }) => <StoredToday volume={volume} />}
        </Card>
      </div>
      <WorstServices />
    </section>
  );
}

interface CardProps<T> {
  readonly title: string;
  readonly href: string;
  readonly of: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
}

/** A card is drawn before its data arrives, and does not wait for the data of others. */
function Card<T extends object>({ title, href, of, children }: CardProps<T>) {
  const shown = of.value.value;
  return (
    <article class="card">
      <h2>
        <a href={href}>{title}</a>
      </h2>
      <Status of={of}>{shown && children(shown)}</Status>
    </article>
  );
}

function Firing({ alerts, channels, atMs }: Alerting) {
  const firing = alerts.filter(({ state }) => state === "firing");
  return (
    <>
      <p>
        <a class={`figure ${firing.length > 0 ? "level is-error" : ""}`} href={address("alerts", { view: "firing" })}>
          {counted(firing.length, "firing alert")}
        </a>
        {alerts.length > firing.length && `, ${alerts.length - firing.length} pending`}
      </p>
      <ul class="plain-list">
        {firing.slice(0, SHOWN).map(({ labels, activeAt }, at) => (
          <li key={at}>
            <a href={address("alerts", { view: "firing" })} title={visible(labels["alertname"] ?? "")}>
              <bdi>{visible(labels["alertname"] ?? "")}</bdi>
            </a>{" "}
            <span class="quiet">
              {visible(labels["severity"] ?? "")}, since {ago(activeAt, atMs)}
            </span>
          </li>
        ))}
      </ul>
      {firing.length > 0 && channels === 0 && (
        <p class="is-warn">
          No one is notified: <a href={address("alerts", { view: "channels", channel: "new" })}>create a channel</a>.
        </p>
      )}
    </>
  );
}

function AgentFigures({ count, silentCount, silent, oldKeys, broken, atMs }: Agents) {
  return (
    <>
      <p>
        <a class={`figure ${silentCount > 0 ? "level is-error" : ""}`} href={address("fleet")}>
          {silentCount} silent
        </a>{" "}
        of {count}
      </p>
      <ul class="plain-list">
        {silent.map(({ entity, last_heartbeat: at }) => (
          <li key={entityAddress(entity)}>
            <a href={entityAddress(entity)} title={visible(entity.name)}>
              <bdi>{visible(entity.name)}</bdi>
            </a>{" "}
            <span class="quiet">
              {entity.kind}, {ago(at, atMs)}
            </span>
          </li>
        ))}
        {silentCount > silent.length && <li class="quiet">and {silentCount - silent.length} more</li>}
      </ul>
      {broken > 0 && (
        <p class="level is-warn">
          <a href={address("fleet")}>{counted(broken, "collector")}</a> not running
        </p>
      )}
      {oldKeys > 0 && (
        <p class="level is-warn">
          <a href={address("fleet")}>{counted(oldKeys, "old key")}</a>, older than 60 days
        </p>
      )}
    </>
  );
}

const SCREEN_OF_SIGNAL: Readonly<Record<string, string>> = { logs: "logs", traces: "traces", metrics: "metrics" };

const STORED_COLUMNS: readonly Column<Volume>[] = [
  {
    head: "signal",
    kind: "name",
    cell: ({ signal }) => <a href={address(SCREEN_OF_SIGNAL[signal] ?? "settings")}>{visible(signal)}</a>,
  },
  { head: "records", kind: "number", cell: ({ records }) => records.toLocaleString("en") },
  { head: "data", kind: "number", cell: ({ bytes }) => bytesText(bytes) },
];

function StoredToday({ volume }: Pick<Stored, "volume">) {
  if (volume.length === 0) return <p class="quiet">No data yet.</p>;
  return <Table title="Stored today by signal" rows={volume} columns={STORED_COLUMNS} />;
}

interface SetUpProps {
  readonly alerting: Alerting | undefined;
  readonly agents: number | undefined;
  readonly signals: ReadonlySet<string> | undefined;
}

type Link = readonly [words: string, href: string];
const connect = (words: string, kind: string): Link => [words, address("add", { kind })];
const TO_CLUSTER = connect("Kubernetes cluster", "cluster");
const TO_HOST = connect("Linux host", "host");
const TO_SDK = connect("OpenTelemetry SDK", "sdk");
const TO_PROMETHEUS = connect("Prometheus", "prometheus");

/** Lists what is not set up yet, each with links that set it up. */
function SetUp({ alerting, agents, signals }: SetUpProps) {
  if (!alerting || agents === undefined || !signals) return null;
  const { rules, channels } = alerting;
  const steps: [boolean, string, Link[]][] = [
    [agents > 0, "Agents", [TO_CLUSTER, TO_HOST]],
    [signals.has("logs"), "Logs", [TO_CLUSTER, TO_HOST, TO_SDK]],
    [signals.has("traces"), "Traces", [TO_SDK]],
    [signals.has("metrics"), "Metrics", [TO_CLUSTER, TO_HOST, TO_SDK, TO_PROMETHEUS]],
    [rules > 0, "Alert rules", [["Create rule", address("alerts", { rule: "new" })]]],
    [channels > 0, "Notifications", [["Create channel", address("alerts", { view: "channels", channel: "new" })]]],
  ];
  const missing = steps.filter(([isDone]) => !isDone);
  if (missing.length === 0 || !mayWrite.value) return null;
  return (
    <article class="card" aria-label="Not set up yet">
      <h2>Not set up yet</h2>
      <ul class="plain-list">
        {missing.map(([, name, links]) => (
          <li key={name}>
            <strong>{name}</strong>
            {links.map(([step, href]) => (
              <a href={href} key={href}>
                {step}
              </a>
            ))}
          </li>
        ))}
      </ul>
    </article>
  );
}

function WorstServices() {
  const loaded = useLoaded("services of the last hour", readWorstServices, { refreshMs: 2 * REFRESH_MS });
  const { services = [], count = 0 } = loaded.value.value ?? {};
  return (
    <article class="card">
      <h2>
        <a href={address("services")}>Services in the last hour</a>
      </h2>
      <p>
        <a href={address("changes")}>What changed in the last hour?</a>
      </p>
      <Status of={loaded} empty={count === 0 && "No spans in the last hour."}>
        <ServiceTable services={services} range={{ from: "1h", to: undefined }} />
        {count > services.length && (
          <p>
            <a href={address("services")}>All {count} services</a>
          </p>
        )}
      </Status>
    </article>
  );
}
