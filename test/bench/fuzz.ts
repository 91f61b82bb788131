// `npm run bench -- fuzz [--programs 200000] [--seed 1] [--main-share 0.3]`: sends random LogQL, matchers, templates, filters and PromQL to
// the sandbox and to the checks of the main process. Prints results by kind, the longest stall, peak memory, and each program that exceeds
// a limit.
import { parseArgs } from "node:util";
import { runCampaign } from "../attacks/fuzz/campaign.ts";

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: "200000" },
    seed: { type: "string", default: "1" },
    "main-share": { type: "string", default: "0.3" },
  },
});
const programs = Number(values.programs);
const beganMs = performance.now();
let shown = 0;
const report = await runCampaign({
  programs,
  seed: Number(values.seed),
  mainShare: Number(values["main-share"]),
  onProgress: (done) => {
    if (done < shown + programs / 20) return;
    shown = done;
    console.error(`${done} programs, ${((performance.now() - beganMs) / 1000).toFixed(0)} s`);
  },
});
console.table(report.answers);
const { answers: _, broken, slowest, ...measured } = report;
console.log(
  JSON.stringify({ fuzz: values, seconds: Math.round((performance.now() - beganMs) / 1000), ...measured, broken: broken.length }),
);
for (const entry of slowest) console.log("slow:", JSON.stringify(entry));
for (const entry of broken.slice(0, 50)) console.log("broken:", JSON.stringify(entry));
process.exitCode = broken.length === 0 ? 0 : 1;
