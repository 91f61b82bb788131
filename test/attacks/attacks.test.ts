// Checks that a tenant cannot disturb others, whatever it tries. One tenant and unauthenticated clients run all kinds of attacks at once on
// a backend within a pod's memory limit, while another tenant sends, queries, logs in, writes rules and receives notifications. The test
// asserts responses, evaluations and survival, not times: `npm run bench -- neighbours` measures those.
import { beforeAll, describe, expect, test } from "vitest";
import { ROOT } from "../fixtures/processes.ts";
import { run, type RunResult } from "./run-attacks.ts";
import { shownRun } from "./show.ts";
import { ATTACKS, FIRST_ATTACKS, PROGRAM_ATTACKS } from "./attack-table.ts";

const LIMIT_MIB = 4096;

describe.each([
  { what: "one attack of each kind", attacks: FIRST_ATTACKS, seconds: 60 },
  { what: "hostile programs, and hostile requests to each route", attacks: PROGRAM_ATTACKS, seconds: 45 },
])("during $what", ({ attacks, seconds }) => {
  let result: RunResult;

  beforeAll(async () => {
    result = await run({ checkout: ROOT, attacks, seconds, limitMib: LIMIT_MIB });
    console.log(shownRun(result));
  });

  test.for(attacks.map((name) => [name, ATTACKS[name]?.what] as const))("%s is executed: %s", ([name]) => {
    expect(Object.keys(result.answers[name] ?? {}).filter((answer) => !answer.startsWith("beforehand"))).not.toEqual([]);
  });

  test("another tenant's requests, and the liveness probes, all succeed", () => {
    const failures = Object.entries(result.fared).flatMap(([doing, { errors }]) =>
      Object.keys(errors).length > 0 ? [{ doing, errors }] : [],
    );
    expect(failures).toEqual([]);
    expect(Object.values(result.fared).filter(({ sent }) => sent === 0)).toEqual([]);
  });

  test("its rules are evaluated, and none of its evaluations fails", () => {
    expect(result.failedEvaluations).toBe(0);
    expect(result.evaluations.came).toBeGreaterThan(result.evaluations.missed);
  });

  test("the backend and its engines stay alive and ready, within the pod's memory", () => {
    const { ends, oomKills, livenessKills, engineRestarts, readinessFailures, livenessFailures, peakAnonymousMiB } = result.pod;
    expect({ ends, oomKills, livenessKills, engineRestarts, readinessFailures, livenessFailures }).toEqual({
      ends: [],
      oomKills: 0,
      livenessKills: 0,
      engineRestarts: 0,
      readinessFailures: 0,
      livenessFailures: 0,
    });
    expect(peakAnonymousMiB).toBeGreaterThan(0);
    expect(peakAnonymousMiB).toBeLessThan(LIMIT_MIB);
  });
});
