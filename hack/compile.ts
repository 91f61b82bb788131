// Writes a folder of TypeScript as plain JavaScript, line for line: for the agent's image, where stripping types at each start would cost
// every node some 25 MB resident, and for the host agent (agent/systemd).
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";

const [from, to] = process.argv.slice(2);
if (!from || !to) {
  console.error("usage: node hack/compile.ts FROM TO");
  process.exit(2);
}

for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || /\.(test|fixture)\.ts$/.test(entry.name)) continue;
  const source = join(entry.parentPath, entry.name);
  const target = join(to, source.slice(from.length)).replace(/\.ts$/, ".js");
  mkdirSync(dirname(target), { recursive: true });
  if (entry.name.endsWith(".ts")) writeFileSync(target, asJavaScript(readFileSync(source, "utf8")));
  else cpSync(source, target);
}

/** Types become white space; relative imports name the written files. */
function asJavaScript(source: string): string {
  const [shebang] = /^#!.*/.exec(source) ?? [""];
  const code = stripTypeScriptTypes(source.slice(shebang.length));
  return shebang + code.replaceAll(/((?:from|import)\s*\(?\s*"\.{1,2}\/[^"]*)\.ts"/g, '$1.js"');
}
