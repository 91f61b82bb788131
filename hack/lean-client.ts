// Takes out of the bundled agent what it does not use of the official Kubernetes client: its classes have methods for every call of the API
// and its serialiser names every model, which no bundler can know to be unused: 7 MB resident on every node. Invariant: what stays is
// decided by agent/kubernetes/api.ts alone: the calls that it names, and every model that these calls, or it, read or write. Where the
// client's text is not as expected, the build fails.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "esbuild";

const CALLS = "agent/kubernetes/api.ts";
const CLIENT = "@kubernetes/client-node/dist/gen";

/** A method of a generated class: its first line is indented by four, and so is its closing brace. */
const METHOD = /^ {4}async (\w+)\([^]*?^ {4}\}\n/gm;
const MODEL_IMPORT = /^import \{ \w+ +\} from '\.\.\/models\/(\w+)\.js';\n/gm;
const MODEL_EXPORT = /^export \* from '\.\.\/models\/\w+\.js';\n/gm;
const MODEL_ENTRY = /^ {4}"(\w+)": \w+,\n/gm;

export function leanClient(root: string): Plugin {
  const calls = readFileSync(join(root, CALLS), "utf8");
  const folder = join(root, "node_modules", CLIENT);
  const isCalled = (method: string): boolean => new RegExp(`\\.${method.replace(/WithHttpInfo$/, "")}(?:WithHttpInfo)?\\(`).test(calls);
  const leanApi = (path: string): string => {
    const text = readFileSync(path, "utf8");
    const lean = text.replace(METHOD, (method, name: string) => (isCalled(name) ? method : ""));
    // A request and an answer at least.
    if ([...lean.matchAll(METHOD)].length < 2)
      throw new Error(`${path}: none of its methods is called in ${CALLS}, or they look otherwise`);
    return lean;
  };
  const apis = [...calls.matchAll(/client-node\/dist\/gen\/(apis\/\w+Api\.js)"/g)].map(([, file = ""]) => join(folder, file));
  return {
    name: "lean-client",
    setup(builder) {
      builder.onLoad({ filter: /client-node\/dist\/gen\/apis\/\w+Api\.js$/ }, ({ path }) => ({ contents: leanApi(path) }));
      builder.onLoad({ filter: /client-node\/dist\/gen\/models\/ObjectSerializer\.js$/ }, ({ path }) => {
        const kept = modelsOf(dirname(path), [calls, ...apis.map(leanApi)]);
        const only = (line: string, model: string): string => (kept.has(model) ? line : "");
        const contents = readFileSync(path, "utf8").replace(MODEL_EXPORT, "").replace(MODEL_IMPORT, only).replace(MODEL_ENTRY, only);
        if (contents.split("from '../models/").length !== kept.size + 1) throw new Error(`${path}: its imports look otherwise`);
        return { contents };
      });
      // The client's own way of sending, which the agent's replaces, would bring all of undici along.
      builder.onResolve({ filter: /^undici$/ }, ({ importer }) =>
        importer.includes("client-node") ? { path: "undici", namespace: "unused" } : undefined,
      );
      builder.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "export const fetch = undefined;" }));
    },
  };
}

/** The models that these texts name as `"V1Secret"`, and those of their fields. */
function modelsOf(folder: string, texts: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (text: string, pattern: RegExp): void => {
    for (const [, type = ""] of text.matchAll(pattern)) {
      for (const [name] of type.matchAll(/\w+/g)) {
        const model = found.has(name) ? undefined : readIfThere(join(folder, `${name}.js`));
        if (model === undefined) continue;
        found.add(name);
        visit(model, /"type": "([^"]+)"/g);
      }
    }
  };
  for (const text of texts) visit(text, /, "([\w<>]+)", "/g);
  return found;
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
