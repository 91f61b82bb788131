// Counts the generated incidents whose cause is among the first three changes, and the quiet hours that look alarming
// (test/fixtures/incidents.ts). The answers are compared by their place, never by a clock.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openChangesApp } from "../../../test/fixtures/changes-app.ts";
import { generate, type Incident, MINUTES, RANGE_START } from "../../../test/fixtures/incident-world.ts";
import { INCIDENT_CASES, QUIET_HOURS, SEED_OFFSET, type SeenChange } from "../../../test/fixtures/incidents.ts";

const FIRST = 3;
/** The last minute that is complete, a few minutes ago, so that the engine has merged its samples. */
const startMs = Math.floor(Date.now() / 60_000) * 60_000 - (MINUTES + 10) * 60_000;
let app: Awaited<ReturnType<typeof openChangesApp>>;

beforeAll(async () => (app = await openChangesApp()));
afterAll(() => app[Symbol.asyncDispose]());

/** The first changes of the incident's second hour, each as a line for people. */
async function firstChanges(incident: Incident, seed: number): Promise<SeenChange[]> {
  const orgId = randomUUID();
  await app.send(orgId, generate(incident, seed, startMs), startMs);
  const { audit } = incident;
  if (audit) {
    const at = new Date(startMs + audit.minute * 60_000);
    const row = {
      id: randomUUID(),
      org_id: orgId,
      at,
      action: audit.action,
      actor: "ada@example.com",
      actor_id: null,
      actor_org_id: orgId,
      address: "",
      request_id: "r",
      subject: JSON.stringify(audit.subject),
    };
    await app.addOrg(orgId);
    await app.db.insertInto("audit_log").values(row).execute();
  }
  await app.flush();
  const range = new URLSearchParams({
    start: new Date(startMs + RANGE_START * 60_000).toISOString(),
    end: new Date(startMs + MINUTES * 60_000).toISOString(),
  });
  const answer = await app.get(orgId, `/query/changes?${range.toString()}`);
  const { changes, missing } = answer.json<{ changes: SeenChange[]; missing: unknown[] }>();
  expect({ status: answer.statusCode, missing }).toEqual({ status: 200, missing: [] });
  return changes.slice(0, FIRST);
}

test("the causes of at least 26 of 30 incidents are among the first three changes", { timeout: 600_000 }, async () => {
  const missed: string[] = [];
  for (const [at, incident] of INCIDENT_CASES.entries()) {
    const changes = await firstChanges(incident, at + 1 + SEED_OFFSET);
    if (!changes.some(incident.isCause))
      missed.push(`${incident.name}: ${changes.map(({ kind, title }) => `[${kind}] ${title}`).join(" | ")}`);
  }
  console.info(
    `${INCIDENT_CASES.length - missed.length} of ${INCIDENT_CASES.length} causes among the first ${FIRST}\n${missed.join("\n")}`,
  );
  expect(INCIDENT_CASES).toHaveLength(30);
  expect(missed.length, missed.join("\n")).toBeLessThanOrEqual(4);
});

test("at most 2 of 30 quiet hours have a problem among the first three changes", { timeout: 600_000 }, async () => {
  const alarming: string[] = [];
  for (const [at, hour] of QUIET_HOURS.entries()) {
    const problems = (await firstChanges(hour, 1000 + at + SEED_OFFSET)).filter(({ severity }) => severity === "problem");
    if (problems.length > 0) alarming.push(`${hour.name}: ${problems.map(({ kind, title }) => `[${kind}] ${title}`).join(" | ")}`);
  }
  console.info(`${alarming.length} of ${QUIET_HOURS.length} quiet hours with a problem among the first ${FIRST}\n${alarming.join("\n")}`);
  expect(alarming.length, alarming.join("\n")).toBeLessThanOrEqual(2);
});
