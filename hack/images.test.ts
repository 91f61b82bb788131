// Checks the Dockerfiles by reading them. test/e2e/images.test.ts checks the size and contents of built images.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "./bundle.ts";
import { importsIn } from "./imports.ts";

/** Instructions that add no files to an image. */
const WORDS = ["ENV", "WORKDIR", "USER", "EXPOSE", "ENTRYPOINT", "CMD", "VOLUME"];

interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: string[];
}

function stagesOf(dockerfile: string): Stage[] {
  const lines = readFileSync(join(ROOT, dockerfile), "utf8").replaceAll("\\\n", " ").split("\n");
  const stages: Stage[] = [];
  for (const line of lines.filter((text) => /^[A-Z]/.test(text))) {
    const [, base, name] = /^FROM (\S+)(?: AS (\S+))?$/.exec(line) ?? [];
    if (base) stages.push({ base, name, instructions: [] });
    else stages.at(-1)?.instructions.push(line);
  }
  return stages;
}

/** All that ends up in the image of a target, the last stage by default: its stage's, and those of the stages that it is built on. */
function shipped(dockerfile: string, target?: string): string[] {
  const stages = stagesOf(dockerfile);
  const all: string[] = [];
  for (let stage = target ? stages.find(({ name }) => name === target) : stages.at(-1); ;) {
    if (!stage) throw new Error(`${dockerfile}: no stage ${target}`);
    const { base, instructions } = stage;
    all.unshift(...instructions);
    stage = stages.find(({ name }) => name === base);
    if (!stage) return [`FROM ${base}`, ...all];
  }
}

describe.each([
  ["Dockerfile.agent", undefined],
  ["Dockerfile.backend", "lean"],
  ["Dockerfile.backend", "embedded"],
  ["Dockerfile.backend", undefined],
])("the image of %s, target %s", (dockerfile, target) => {
  test("starts from scratch and copies only files of other stages, so that no file is hidden in a lower layer", () => {
    const [from, ...instructions] = shipped(dockerfile, target);
    expect(from).toBe("FROM scratch");
    const files = instructions.filter((line) => !WORDS.includes(line.split(" ")[0] ?? ""));
    expect(files.length).toBeGreaterThan(2);
    for (const line of files) expect(line).toMatch(/^COPY --from=[a-z-]+ \/\S+ \S+$/);
    expect(files.filter((line) => line.endsWith(" /"))).toEqual(["COPY --from=system /image /"]);
  });

  test("runs as user 1000, and finds its programs", () => {
    const instructions = shipped(dockerfile, target);
    expect(instructions).toContain("USER 1000:1000");
    expect(instructions).toContainEqual(expect.stringMatching(/^ENV PATH=\S*\/usr\/local\/bin:/));
  });
});

test(".dockerignore includes what a build runs of hack/, with its imports", () => {
  const stages = ["Dockerfile.agent", "Dockerfile.backend"].flatMap(stagesOf).flatMap(({ instructions }) => instructions);
  const run = new Set(stages.flatMap((line) => [...line.matchAll(/\bhack\/[\w-]+\.(?:ts|sh)/g)].map(([file]) => file)));
  // esbuild loads it, not an import.
  run.add("hack/stack-traces.ts");
  // The stage of the collector copies it.
  run.add("hack/tools");
  for (const file of run) {
    if (!/\.\w+$/.test(file)) continue;
    const loaded = importsIn(readFileSync(join(ROOT, file), "utf8")).filter(({ path, isType }) => path.startsWith("./") && !isType);
    for (const { path } of loaded) run.add(join("hack", path));
  }
  const letIn = readFileSync(join(ROOT, ".dockerignore"), "utf8").matchAll(/^!(hack\/.*)$/gm);
  expect([...run].sort()).toEqual([...letIn].map(([, file = ""]) => file).sort());
});

/** Images on a registry contain all components of a distribution, of other versions than those that the tests run. */
test("builds the agent's collector from the manifest with which the tests' collector is built", () => {
  const collector = stagesOf("Dockerfile.agent").find(({ name }) => name === "collector");
  expect(collector?.base).toMatch(/^golang:/);
  expect(collector?.instructions).toContain("COPY hack/tools /tools");
  expect(collector?.instructions.join("\n")).toContain("../otelcol-contrib/manifest.yaml");
  expect(shipped("Dockerfile.agent").filter((line) => line.includes("otelcol"))).toContainEqual(
    expect.stringMatching(/^COPY --from=collector \/otelcol-contrib /),
  );
});

test("builds the backend with embedded engines without a target", () => {
  expect(shipped("Dockerfile.backend")).toEqual(shipped("Dockerfile.backend", "embedded"));
});
