// Runs `hack/publish` with the real helm and crane, with a registry on this machine.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { eventually, freeAddresses, temporaryFolder } from "../test/fixtures/processes.ts";
import { ROOT } from "./bundle.ts";
import { toolPath } from "./fetch-tools.ts";

let helm: string;
let crane: string;
beforeAll(async () => {
  helm = await toolPath("helm");
  crane = await toolPath("crane");
}, 300_000);

async function registry(): Promise<string> {
  const [address = ""] = await freeAddresses(1);
  const server = spawn(crane, ["registry", "serve", "--address", address], { stdio: "ignore" });
  onTestFinished(() => void server.kill());
  const answers = async (): Promise<boolean> => (await fetch(`http://${address}/v2/`).catch(() => undefined))?.ok ?? false;
  await eventually("the registry answers", answers, 50_000);
  return `${address}/telemetry`;
}

/** A release of one chart and one image, as `hack/release` and `build-images.sh` write them. */
async function dist(): Promise<string> {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  for (const chart of ["backend", "cluster-agent"])
    await execa(helm, ["package", join(ROOT, "charts", chart), "--destination", folder.path]);
  const sums = readdirSync(folder.path).map((name) => `${digest(readFileSync(join(folder.path, name)))}  ${name}\n`);
  writeFileSync(join(folder.path, "SHA256SUMS"), sums.join(""));
  layout(join(folder.path, "images", "atherops-agent_1.2.3"));
  return folder.path;
}

function digest(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** An OCI image layout with an image of no layers. */
function layout(folder: string): void {
  mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
  const blob = (mediaType: string, content: object): object => {
    const bytes = Buffer.from(JSON.stringify(content));
    writeFileSync(join(folder, "blobs/sha256", digest(bytes)), bytes);
    return { mediaType, digest: `sha256:${digest(bytes)}`, size: bytes.length };
  };
  const rootfs = { type: "layers", diff_ids: [] };
  const config = blob("application/vnd.oci.image.config.v1+json", { architecture: "amd64", os: "linux", config: {}, rootfs });
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifests = [blob(mediaType, { schemaVersion: 2, mediaType, config, layers: [] })];
  writeFileSync(join(folder, "index.json"), JSON.stringify({ schemaVersion: 2, manifests }));
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
}

function publish(...args: string[]) {
  return execa(process.execPath, [join(ROOT, "hack/publish.ts"), ...args], { reject: false });
}

test("publishes charts and images that can be installed from the registry", async () => {
  const [folder, target] = [await dist(), await registry()];
  const run = await publish(target, "--dist", folder);
  expect(run.stderr).toBe("");
  for (const name of ["atherops-backend", "cluster-agent"]) {
    const { stdout: chart } = await execa(helm, ["show", "chart", `oci://${target}/charts/${name}`, "--plain-http"]);
    expect(chart).toContain(`name: ${name}`);
  }
  const { stdout: image } = await execa(crane, ["config", `${target}/atherops-agent:1.2.3`, "--insecure"]);
  expect(JSON.parse(image)).toMatchObject({ architecture: "amd64" });
}, 120_000);

test("publishes nothing if a file differs from the release's", async () => {
  const [folder, target] = [await dist(), await registry()];
  const [chart = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  writeFileSync(join(folder, chart), "other bytes");
  const run = await publish(target, "--dist", folder);
  expect(run.exitCode).toBe(1);
  expect(run.stderr).toBe(`hack/publish: ${join(folder, chart)} is missing or changed: run hack/release again`);
  const { stdout } = await execa(crane, ["catalog", target.split("/")[0] ?? "", "--insecure"]);
  expect(stdout).toBe("");
}, 120_000);

test("reports a missing registry and a missing release in one sentence", async () => {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  expect((await publish()).stderr).toBe("hack/publish: specify one registry, such as registry.example.com/telemetry");
  expect((await publish("localhost:5000", "--dist", folder.path)).stderr).toBe(
    `hack/publish: ${folder.path} has no SHA256SUMS: run hack/release first`,
  );
});
