// The processor for lines of files. A path is read once per batch, because all lines of a batch are from one file: the path moves to the
// resource, and the resource gets what the path contains. Lines whose text the backend parses are in a scope with a name that the backend
// knows. Invariant: it has the same result if it gets its own output, because a reader whose batch was refused sends the changed batch again;
// groupbyattrs would lose the path then.
import type { Component } from "./fragment.ts";

/**
 * How much of a line the collector parses. `nothing`: the backend parses lines. `text`: the container runtime's format, for options that
 * need the line that a program wrote. `fields`: also level, time and trace, for conditions on them and for operators' own components.
 */
export type NodeParsing = "nothing" | "text" | "fields";

/** Lines as a container runtime wrote them; the parts of a long line are joined with newlines. */
export const CRI_LINES = "atherops/cri-lines";
/** Lines as a program wrote them. */
export const LINES = "atherops/lines";

const PATH = 'attributes["log.file.path"]';
const MOVE_PATH = [
  `set(resource.${PATH}, log.${PATH}) where resource.${PATH} == nil`,
  `delete_key(log.attributes, "log.file.path") where log.${PATH} == resource.${PATH}`,
];

const NAME = 'attributes["log.file.name"]';
const COPY_NAME = `set(log.${NAME}, resource.${NAME}) where resource.${NAME} != nil`;

interface ScopeInput {
  /** Statements that set the resource's attributes from its path. */
  readonly resource: readonly string[];
  /** The name of the scope, with an optional condition; undefined: the collector parses lines completely. */
  readonly scopes: readonly string[];
  /** True if conditions and operators' own components may read path and name of each record's file. */
  readonly keepsPath: boolean;
}

export function fileAttributesFrom({ resource, scopes, keepsPath }: ScopeInput): Component {
  return {
    // A path of another form has none of the attributes.
    error_mode: "silent",
    log_statements: [
      ...statements("log", keepsPath ? MOVE_PATH.slice(0, 1) : MOVE_PATH),
      ...statements("resource", resource),
      ...statements("scope", scopes),
      ...statements("log", keepsPath ? [`set(log.${PATH}, resource.${PATH})`, COPY_NAME] : []),
    ],
  };
}

export function nameScope(name: string, condition?: string): string {
  return `set(scope.name, "${name}")${condition === undefined ? "" : ` where ${condition}`}`;
}

/** Level, time and trace of these lines are not parsed by the backend either. */
export function withoutFields(condition?: string): string {
  return `set(scope.version, "raw")${condition === undefined ? "" : ` where ${condition}`}`;
}

function statements(context: string, list: readonly string[]): object[] {
  return list.length > 0 ? [{ context, statements: list }] : [];
}
