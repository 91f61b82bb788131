// Collects the licences of the packages in a bundle. It is plain JavaScript, because hack/console.mjs needs it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** `inputs`: bundled files, relative to `root`. Each section has the package, the name of its licence, and its licence files. */
export function readLicences(root, inputs) {
  const folders = new Set(inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []));
  return [...folders]
    .map((folder) => {
      const path = join(root, folder);
      const { name, version, license = "see below" } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
      const files = readdirSync(path).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
      const texts = files.sort().map((file) => readFileSync(join(path, file), "utf8").trim());
      const id = `${name}@${version}`;
      const text = texts.join("\n\n") || "The package contains no licence text.";
      return { id, section: `${"=".repeat(80)}\n${id} (${license})\n\n${text}\n` };
    })
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
