// How large the images are, and what is not in them: measured within, on a node of the cluster. That no file lies unseen in a lower layer,
// hack/images.test.ts holds.
import { expect, test } from "vitest";
import { versionOf } from "../../hack/version.ts";
import { ROOT } from "../fixtures/processes.ts";
import { kubectl } from "./cluster.ts";

const version = versionOf(ROOT);

/** Runs a shell command in a pod of its own, and answers what it printed. */
async function within(image: string, command: string): Promise<string> {
  const name = image.replaceAll(/[:.]/g, "-");
  await kubectl(["-n", "default", "delete", "pod", name, "--ignore-not-found", "--now"]);
  const run = ["run", name, `--image=${image}`, "--image-pull-policy=Never", "--restart=Never", "--attach", "--rm", "--quiet"];
  return await kubectl(["-n", "default", ...run, "--command", "--", "sh", "-c", command]);
}

test.each([
  [`atherops-backend:${version}`, 800],
  [`atherops-backend:${version}-lean`, 250],
  [`atherops-agent:${version}`, 160],
])("%s has at most %i MiB of files beside the collector, and no program that makes its caller another user", async (image, mib) => {
  const [size, ...programs] = (
    await within(image, "du -xsm --exclude=otelcol-contrib / 2>/dev/null | cut -f 1; find / -xdev -type f -perm /6000 2>/dev/null; true")
  )
    .trim()
    .split("\n");
  console.log(`${image}: ${size} MiB`);
  expect(Number(size)).toBeGreaterThan(100);
  expect(Number(size)).toBeLessThanOrEqual(mib);
  expect(programs).toEqual([]);
});

test("the lean image has both commands, and says in one sentence what to set", async () => {
  const output = await within(
    `atherops-backend:${version}-lean`,
    "atherops --version; atherops-backend --version; DATA_DIR=/tmp/data atherops-backend serve 2>&1; echo $?",
  );
  expect(output.split("\n").slice(0, 2)).toEqual([version, version]);
  expect(output).toMatch(/^atherops-backend: .* is not installed/m);
  expect(output.trim()).toMatch(/\n2$/);
});
