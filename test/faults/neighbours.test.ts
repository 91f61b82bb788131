// The guarantee (docs/guarantees.md) that tenants cannot disturb each other, whoever tries: one tenant and strangers attack in one way of each kind at once,
// for a minute, a backend within a pod's limit of memory. Another tenant sends, asks, logs in, makes rules and is alerted meanwhile. What
// is asserted is answers, evaluations and lives, not times: how long they take is for `npm run bench -- neighbours`.
import { beforeAll, describe, expect, test } from "vitest";
import { ATTACKS, FIRST_ATTACKS } from "../bench/neighbours/attacks.ts";
import { run, type RunResult } from "../bench/neighbours/run.ts";
import { shownRun } from "../bench/neighbours/show.ts";
import { ROOT } from "../fixtures/processes.ts";

const LIMIT_MIB = 4096;

describe("while one tenant attacks in every way at once", () => {
  let result: RunResult;

  beforeAll(async () => {
    result = await run({ checkout: ROOT, attacks: FIRST_ATTACKS, seconds: 60, limitMib: LIMIT_MIB });
    console.log(shownRun(result));
  });

  test.for(FIRST_ATTACKS.map((name) => [name, ATTACKS[name]?.what] as const))("%s is carried out: %s", ([name]) => {
    expect(Object.keys(result.answers[name] ?? {}).filter((answer) => !answer.startsWith("beforehand"))).not.toEqual([]);
  });

  test("whatever another tenant sends, asks and changes is answered with success", () => {
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

  test("the backend and its engines live, ready, within the pod's memory", () => {
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
