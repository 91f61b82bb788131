// The landing page: a ranked list of problems, each with its cause, since when, and one next click; what is healthy in one line; what
// changed; services; and what is not set up yet.
import { useMemo } from "preact/hooks";
import { Bar, Card, ButtonLink, Chip, NameLink, Status, visible, useRefresh } from "../parts/index.ts";
import { bytesText } from "../../client/text.ts";
import { ThisMachine } from "../fleet/this-machine.tsx";
import { ServiceTable } from "../services/service-table.tsx";
import { type Loaded, useLoaded, address, mayWrite, ago, fragmentOf, timestampText, timeText } from "../state/index.ts";
import { type Problem, type Problems, readProblems, readSetUp, readWorstServices, type SetUp, type WorstServices } from "./read.ts";

const REFRESH_MS = 30_000;
/** More are behind a button. */
const SHOWN = 12;

/** Each part reads what it shows, so that a response draws that part alone. */
export function Overview() {
  const problems = useLoaded("problems", readProblems, { refreshMs: REFRESH_MS });
  const services = useLoaded("services of the last hour", readWorstServices, { refreshMs: 2 * REFRESH_MS });
  const setUp = useLoaded("set up", readSetUp, { refreshMs: 4 * REFRESH_MS });
  const reload = (): void => {
    for (const part of [problems, services, setUp]) part.reload();
  };
  useRefresh(reload);
  return (
    <section class="screen overview" aria-labelledby="title">
      <Bar title="Overview" />
      <ThisMachine onReady={reload} />
      <MissingSetUp of={setUp} problems={problems} />
      <div class="problems-and-changes">
        <ProblemList of={problems} services={services} setUp={setUp} />
        <WhatChanged of={problems} />
      </div>
      <Services of={services} />
    </section>
  );
}

type LoadedProblems = Loaded<Problems & { readonly atMs: number }>;

interface ProblemListProps {
  readonly of: LoadedProblems;
  readonly services: Loaded<WorstServices>;
  readonly setUp: Loaded<SetUp>;
}

function ProblemList({ of, services, setUp }: ProblemListProps) {
  const { problems = [], total = 0, missing = [], totals = {}, atMs = 0 } = of.value.value ?? {};
  const isFiring = problems.some(({ kind }) => kind === "alert");
  return (
    <section class="card" aria-label="Problems">
      <header>
        <h2>Problems</h2>
        {total > 0 && <Chip tone={problems.some(({ severity }) => severity === "critical") ? "error" : "warn"} text={String(total)} />}
      </header>
      <Status of={of}>
        {total === 0 && missing.length === 0 && <p>No problems.</p>}
        <Rows of={problems.slice(0, SHOWN)} atMs={atMs} />
        {total > SHOWN && (
          <details>
            <summary>{total - SHOWN} more</summary>
            <Rows of={problems.slice(SHOWN)} atMs={atMs} />
          </details>
        )}
        {missing.length > 0 && <p class="is-warn">Not checked, because they could not be read: {missing.join(", ")}.</p>}
        {isFiring && setUp.value.value?.channels === 0 && (
          <p class="is-warn">
            No one is notified: <a href={address("alerts", { view: "channels", channel: "new" })}>create a channel</a>.
          </p>
        )}
        <Healthy problems={problems} totals={totals} services={services.value.value} setUp={setUp.value.value} />
      </Status>
    </section>
  );
}

function Rows({ of, atMs }: { of: readonly Problem[]; atMs: number }) {
  return (
    <ul class="problems">
      {of.map((problem) => (
        <Row problem={problem} atMs={atMs} key={`${problem.title} ${problem.link}`} />
      ))}
    </ul>
  );
}

function Row({ problem: { severity, title, detail, since, action, link }, atMs }: { problem: Problem; atMs: number }) {
  const tone = severity === "critical" ? "error" : "warn";
  return (
    <li>
      <span class={`dot is-${tone}`} role="img" aria-label={severity} title={severity} />
      <div>
        <strong>
          <bdi>{visible(title)}</bdi>
        </strong>
        {detail && (
          <p class="quiet">
            <bdi>{visible(detail)}</bdi>
          </p>
        )}
      </div>
      {since ? (
        <time class="quiet" dateTime={since} title={`since ${timestampText(since)}`}>
          {ago(since, atMs).replace(" ago", "")}
        </time>
      ) : (
        <span />
      )}
      <ButtonLink class="small" href={link} aria-label={`${action}: ${visible(title)}`} text={action} />
    </li>
  );
}

interface HealthyProps extends Pick<Problems, "problems" | "totals"> {
  readonly services: WorstServices | undefined;
  readonly setUp: SetUp | undefined;
}

/** What is healthy, and how much was stored today, in one line. */
function Healthy({ problems, totals, services, setUp }: HealthyProps) {
  const worse = services?.services.filter((service) => service.worse > 0).length ?? 0;
  // Each service has at most one problem. What is listed above is not counted as healthy here.
  const failing = problems.filter(({ kind }) => kind === "service").length;
  const badNodes = new Set(problems.filter(({ link }) => link.includes("kind=node")).map(({ link }) => link)).size;
  const all = [
    ["services", address("services"), services?.count, Math.max(worse, failing)],
    ["pods", address("kubernetes"), totals["pods"]?.total, totals["pods"]?.with_problem],
    ["nodes", address("kubernetes", { view: "node" }), totals["nodes"]?.total, badNodes],
    ["agents", address("fleet"), totals["agents"]?.total, totals["agents"]?.with_problem],
  ] as const;
  const parts = all.filter(([, , total = 0]) => total > 0);
  if (parts.length === 0 && !setUp?.volume.length) return null;
  return (
    <p class="healthy">
      {parts.length > 0 && "Healthy:"}
      {parts.map(([name, href, total = 0, bad = 0]) => (
        <a href={href} key={name}>
          <strong>{total - bad}</strong> of {total} {name}
        </a>
      ))}
      {setUp && setUp.volume.length > 0 && (
        <a href={address("settings", { part: "usage" })}>
          stored today: {setUp.volume.map(({ signal, bytes }) => `${bytesText(bytes)} of ${signal}`).join(", ")}
        </a>
      )}
    </p>
  );
}

function WhatChanged({ of }: { of: LoadedProblems }) {
  const { changes } = of.value.value ?? {};
  if (!changes) return null;
  return (
    <Card title="What changed" href={address("changes")}>
      {changes.length === 0 ? (
        <p class="quiet">Nothing in the last hour that can explain a problem.</p>
      ) : (
        <ul class="changes">
          {changes.map(({ title, since, link }) => (
            <li key={`${title} ${link}`}>
              <time class="quiet">{since === undefined ? "" : timeText(new Date(since), { withMs: false }).slice(0, 5)}</time>
              <NameLink href={fragmentOf(link)} text={title} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

type Link = readonly [words: string, href: string];
const connect = (words: string, kind: string): Link => [words, address("add", { kind })];
const TO_CLUSTER = connect("Kubernetes cluster", "cluster");
const TO_HOST = connect("Linux host", "host");
const TO_SDK = connect("OpenTelemetry SDK", "sdk");
const TO_PROMETHEUS = connect("Prometheus", "prometheus");

/** Lists what is not set up yet, each with links that set it up. */
function MissingSetUp({ of, problems }: { of: Loaded<SetUp>; problems: LoadedProblems }) {
  const agents = problems.value.value?.totals["agents"]?.total;
  if (!of.value.value || agents === undefined) return null;
  const { rules, channels, signals } = of.value.value;
  // What is stored is counted once a minute, so at first nothing is known of what agents send.
  const has = (signal: string): boolean => signals.has(signal) || (signals.size === 0 && agents > 0);
  const steps: [boolean, string, Link[]][] = [
    [agents > 0, "Agents", [TO_CLUSTER, TO_HOST]],
    [has("logs"), "Logs", [TO_CLUSTER, TO_HOST, TO_SDK]],
    [has("traces"), "Traces", [TO_SDK]],
    [has("metrics"), "Metrics", [TO_CLUSTER, TO_HOST, TO_SDK, TO_PROMETHEUS]],
    [rules > 0, "Alert rules", [["Create rule", address("alerts", { rule: "new" })]]],
    [channels > 0, "Notifications", [["Create channel", address("alerts", { view: "channels", channel: "new" })]]],
  ];
  const missing = steps.filter(([isDone]) => !isDone);
  if (missing.length === 0 || !mayWrite.value) return null;
  return (
    <Card title="Not set up yet">
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
    </Card>
  );
}

const LAST_HOUR = { from: "1h", to: undefined };
const NONE: WorstServices["services"] = [];

function Services({ of: loaded }: { of: Loaded<WorstServices> }) {
  const { services = NONE, count = 0 } = loaded.value.value ?? {};
  // Its lines are drawn again only with new data.
  const table = useMemo(() => <ServiceTable services={services} range={LAST_HOUR} />, [services]);
  return (
    <Card title="Services in the last hour" label="Services" href={address("services")}>
      <Status of={loaded} empty={count === 0 && "No spans in the last hour."}>
        {table}
        {count > services.length && (
          <p>
            <a href={address("services")}>All {count} services</a>
          </p>
        )}
      </Status>
    </Card>
  );
}
