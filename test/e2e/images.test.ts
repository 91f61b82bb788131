// Checks the size and the contents of the images on a node of the cluster. hack/images.test.ts checks that no file is hidden in a lower
// layer.
import { expect, test } from "vitest";
import { versionOf } from "../../hack/version.ts";
import { ROOT } from "../fixtures/processes.ts";
import { kubectl } from "./cluster.ts";

const version = versionOf(ROOT);

/** Runs a shell command, which must succeed, in a separate pod, and returns its output. */
async function within(image: string, command: string): Promise<string> {
  const pod = image.replaceAll(/[:.]/g, "-");
  const remove = ["-n", "default", "delete", "pod", pod, "--ignore-not-found", "--now"];
  await kubectl(remove);
  const run = ["run", pod, `--image=${image}`, "--image-pull-policy=Never", "--restart=Never", "--command", "--", "sh", "-c", command];
  await kubectl(["-n", "default", ...run]);
  await kubectl(["-n", "default", "wait", `pod/${pod}`, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s"]);
  const output = await kubectl(["-n", "default", "logs", pod]);
  await kubectl(remove);
  return output;
}

test.each([
  [`atherops-backend:${version}`, 720],
  [`atherops-backend:${version}-lean`, 200],
  [`atherops-agent:${version}`, 160],
])("%s has at most %i MiB of files without the collector, TLS authorities, and no setuid program", async (image, mib) => {
  const measure = "du -xsm --exclude=otelcol-contrib / 2>/dev/null | cut -f 1";
  const amiss = "[ -s /etc/ssl/certs/ca-certificates.crt ] || echo no authorities; find / -xdev -type f -perm /6000 2>/dev/null";
  const [size, ...found] = (await within(image, `${measure}; ${amiss}; true`)).trim().split("\n");
  console.log(`${image}: ${size} MiB`);
  expect(Number(size)).toBeGreaterThan(100);
  expect(Number(size)).toBeLessThanOrEqual(mib);
  expect(found).toEqual([]);
});

test("the lean image has both commands, and reports in one sentence what to set", async () => {
  const output = await within(
    `atherops-backend:${version}-lean`,
    "atherops --version; atherops-backend --version; DATA_DIR=/tmp/data atherops-backend serve 2>&1; echo $?",
  );
  expect(output.split("\n").slice(0, 2)).toEqual([version, version]);
  expect(output).toMatch(/^atherops-backend: .* is not installed/m);
  expect(output.trim()).toMatch(/\n2$/);
});
