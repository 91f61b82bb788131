// `npm run bench -- shares [--kinds sandbox,PromQL] [--others 1,2,3,10] [--seconds 20] [--checkout DIR] [--out FILE]`: how long an idle
// organisation's queries, bodies and pages take while others are as busy as they may be with one shared resource, one after the other:
// slots of LogQL, log reads and PromQL, memory of responses that are read slowly, memory of bodies that are sent slowly, this process's
// thread, and the account database. `--checkout`: the backend of another checkout, measured by this program. Target: p99 of 500 ms on two
// quiet cores, and no error.
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { PRESSURES, type PressureName } from "../attacks/shares/pressure.ts";
import { Shares, type SharesResult, shownShares } from "../attacks/shares/run-shares.ts";
import { ROOT } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    kinds: { type: "string", default: Object.keys(PRESSURES).join(",") },
    others: { type: "string", default: "1,2,3,10" },
    seconds: { type: "string", default: "20" },
    checkout: { type: "string", default: ROOT },
    out: { type: "string" },
  },
});
const numbers = values.others.split(",").map(Number);
const results: SharesResult[] = [];
await using shares = await Shares.start(Math.max(...numbers), { program: join(resolve(values.checkout), "backend/main.ts") });
for (const kind of values.kinds.split(",") as PressureName[]) {
  for (const others of numbers) {
    const result = await shares.measure(kind, others, Number(values.seconds));
    results.push(result);
    console.log(`${shownShares(result)}\n  load of the machine ${loadavg()[0]?.toFixed(1)}`);
  }
}
const json = JSON.stringify({ bench: "shares", node: process.version, options: values, results });
console.log(json);
if (values.out !== undefined) writeFileSync(values.out, `${json}\n`);
