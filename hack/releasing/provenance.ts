// Describes where the files of a release come from, as an in-toto statement with SLSA provenance (slsa.dev/spec/v1.0/provenance). It is not
// signed; the publisher of the release can sign it, for example with `cosign attest-blob`. Invariant: two runs from one commit write the
// same bytes.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface ProvenanceInput {
  readonly version: string;
  readonly commit: string;
  /** Folder of the files. */
  readonly folder: string;
  readonly files: readonly string[];
  /** Root of the checkout. */
  readonly root: string;
}

/** Files that pin what a release is built from. */
const LOCKS = [
  "package-lock.json",
  "hack/tools/otelcol-contrib/go.sum",
  "hack/tools/otelcol-host/go.sum",
  "hack/tools/victoria-metrics/go.sum",
];

export function provenance({ version, commit, folder, files, root }: ProvenanceInput): object {
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: files.map((name) => ({ name, digest: { sha256: sha256(join(folder, name)) } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "urn:atherops:hack-release:v1",
        externalParameters: { version },
        resolvedDependencies: [
          { uri: "git+urn:atherops:repository", digest: { gitCommit: commit } },
          ...LOCKS.map((name) => ({ name, digest: { sha256: sha256(join(root, name)) } })),
        ],
      },
      runDetails: { builder: { id: "urn:atherops:hack-release" } },
    },
  };
}

export function sha256(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}
