// The order in which a reader who follows one request reads the code: a function to its end, then each function that it names, every
// function once; opening a file that was left before is a return. A call of a method is followed by the declared type of its receiver, to
// the class or to the first class that implements the interface. Kernels and tests are left out.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Node, parseSync, Visitor } from "oxc-parser";

interface Body {
  readonly file: string;
  /** Names in its code, in order: `name` of a function or a class, or `receiver.method`; for its own methods the receiver is `this`. */
  readonly names: readonly string[];
}

/** Methods by name. */
type Class = Map<string, Body>;

export interface Walked {
  /** In the order in which they are opened. */
  readonly files: readonly string[];
  readonly functions: number;
  readonly returns: number;
}

/** Reads `files` of the checkout `tree`; the result walks from all functions of the files that it is given. */
export function createWalk(tree: string, files: readonly string[]): (entryFiles: readonly string[]) => Walked {
  const sources = new Sources();
  for (const file of files) if (!file.includes("/kernel/")) sources.add(file, readFileSync(join(tree, file), "utf8"));
  return (entryFiles) => {
    const read = new Set<Body>();
    const opened = new Set<string>();
    let current = "";
    let returns = 0;
    const visit = (body: Body | undefined): void => {
      if (!body || read.has(body)) return;
      read.add(body);
      if (body.file !== current && opened.has(body.file)) returns += 1;
      current = body.file;
      opened.add(body.file);
      for (const name of body.names) visit(sources.find(body.file, name));
    };
    for (const file of entryFiles) for (const body of sources.bodiesOf(file)) visit(body);
    return { files: [...opened], functions: read.size, returns };
  };
}

class Sources {
  readonly #functions = new Map<string, Map<string, Body>>();
  readonly #classes = new Map<string, Class>();
  /** Interface → the classes that implement it. */
  readonly #implementing = new Map<string, string[]>();
  /** File and local name → the file and the name that it is imported from. */
  readonly #imports = new Map<string, { readonly file: string; readonly name: string }>();
  /** File and variable, field or parameter → its type; without a file if all files agree on the type, and undefined if they do not. */
  readonly #types = new Map<string, string | undefined>();

  add(file: string, text: string): void {
    const functions = new Map<string, Body>();
    this.#functions.set(file, functions);
    const note = (name: string, type: string | undefined): void => {
      if (type === undefined) return;
      this.#types.set(`${file} ${name}`, type);
      this.#types.set(name, this.#types.has(name) && this.#types.get(name) !== type ? undefined : type);
    };
    new Visitor({
      ImportDeclaration: ({ source, specifiers }) => {
        const from = source.value.startsWith(".") ? join(dirname(file), source.value) : undefined;
        for (const each of specifiers)
          if (from && each.type === "ImportSpecifier" && "name" in each.imported)
            this.#imports.set(`${file} ${each.local.name}`, { file: from, name: each.imported.name });
      },
      FunctionDeclaration: (node) => void (node.id && functions.set(node.id.name, { file, names: namesIn(node) })),
      VariableDeclarator: ({ id, init }) => {
        if (id.type !== "Identifier") return;
        if (init?.type.endsWith("FunctionExpression")) functions.set(id.name, { file, names: namesIn(init) });
        else if (init?.type === "NewExpression") note(id.name, nameOf(init.callee));
      },
      ClassDeclaration: (node) => {
        if (!node.id) return;
        const methods: Class = new Map();
        this.#classes.set(node.id.name, methods);
        for (const { expression } of node.implements ?? []) {
          const role = nameOf(expression) ?? "";
          this.#implementing.set(role, [...(this.#implementing.get(role) ?? []), node.id.name]);
        }
        for (const member of node.body.body) {
          const name = "key" in member ? nameOf(member.key) : undefined;
          if (name && member.type === "MethodDefinition") methods.set(name, { file, names: namesIn(member) });
        }
      },
      PropertyDefinition: ({ key, typeAnnotation, value }) =>
        note(nameOf(key) ?? "", typeOf(typeAnnotation) ?? (value?.type === "NewExpression" ? nameOf(value.callee) : undefined)),
      TSPropertySignature: ({ key, typeAnnotation }) => note(nameOf(key) ?? "", typeOf(typeAnnotation)),
      AssignmentExpression: ({ left, right }) => {
        if (right.type === "NewExpression" && left.type === "MemberExpression") note(nameOf(left.property) ?? "", nameOf(right.callee));
      },
      Identifier: (node) => {
        if ("typeAnnotation" in node) note(node.name, typeOf(node.typeAnnotation));
      },
    }).visit(parseSync(file, text).program);
  }

  bodiesOf(file: string): Body[] {
    const methods = [...this.#classes.values()].flatMap((each) => [...each.values()]).filter((body) => body.file === file);
    return [...(this.#functions.get(file)?.values() ?? []), ...methods];
  }

  /** The function or method that `name` means in `file`; undefined if it is a library's, or not a function. */
  find(file: string, name: string): Body | undefined {
    const [receiver = "", method] = name.split(".");
    if (method === undefined) {
      const imported = this.#imports.get(`${file} ${name}`) ?? { file, name };
      return this.#functions.get(imported.file)?.get(imported.name) ?? this.#classes.get(imported.name)?.get("constructor");
    }
    if (receiver === "this")
      return this.bodiesOf(file).find((body) => [...this.#classes.values()].some((each) => each.get(method) === body));
    const type = this.#types.get(`${file} ${receiver}`) ?? this.#types.get(receiver) ?? "";
    for (const name of [type, ...(this.#implementing.get(type) ?? [])]) {
      const found = this.#classes.get(name)?.get(method);
      if (found) return found;
    }
    return undefined;
  }
}

function namesIn(root: Node): string[] {
  const names: string[] = [];
  const walk = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(walk);
    if (typeof node !== "object" || node === null || !("type" in node)) return;
    const { type } = node as Node;
    if (type.startsWith("TS") && !/^TS(?:As|NonNull|Satisfies)Expression$/.test(type)) return;
    const each = node as Node;
    if (each.type === "MemberExpression" && !each.computed) {
      walk(each.object);
      names.push(
        `${each.object.type === "ThisExpression" ? "this" : (nameOf("property" in each.object ? each.object.property : each.object) ?? "")}.${nameOf(each.property)}`,
      );
    } else if (each.type === "Identifier") names.push(each.name);
    else for (const [key, child] of Object.entries(each)) if (key !== "key") walk(child);
  };
  walk(root);
  return names;
}

function nameOf(node: Node): string | undefined {
  return "name" in node && typeof node.name === "string" ? node.name : undefined;
}

/** The name of a declared type; of `Pick<T, …>` and other types with arguments, the first one. */
function typeOf(annotation: Node | null | undefined): string | undefined {
  const type = annotation?.type === "TSTypeAnnotation" ? annotation.typeAnnotation : annotation;
  if (type?.type === "TSUnionType") return type.types.map(typeOf).find((name) => name !== undefined);
  if (type?.type !== "TSTypeReference") return undefined;
  return nameOf(type.typeName) === "Pick" ? typeOf(type.typeArguments?.params[0]) : nameOf(type.typeName);
}
