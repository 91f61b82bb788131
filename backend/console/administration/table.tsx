// A list of things that can be made and removed: users, keys, tokens, organisations.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Dialog, Problem, Status, visible } from "../parts/common.tsx";
import { call, wordsOf } from "../state/api.ts";
import { useLoaded, type Loaded } from "../state/loaded.ts";
import { wholeList } from "../state/pages.ts";
import { mayWrite } from "../state/session.ts";

export interface Column<T> {
  readonly name: string;
  readonly of: (row: T) => string;
}

export interface ThingsProps<T> {
  readonly title: string;
  /** Its list is read with GET; a thing is removed with DELETE of `path/id`. */
  readonly path: string;
  readonly columns: readonly Column<T>[];
  readonly idOf: (row: T) => string;
  /** What is said before it is removed; undefined: it cannot be. */
  readonly removal?: (row: T) => string | undefined;
  readonly form?: (reload: () => void) => ComponentChildren;
}

export function Things<T>({ title, path, columns, idOf, removal, form }: ThingsProps<T>) {
  const found = useLoaded(path, async (signal) => (await wholeList<T>(path, signal)).rows);
  const rows = found.value.value ?? [];
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Status of={found} empty={rows.length === 0 && "None."}>
        {rows.length > 0 && <Rows title={title} path={path} rows={rows} columns={columns} idOf={idOf} removal={removal} found={found} />}
      </Status>
      {mayWrite.value && form?.(found.reload)}
    </section>
  );
}

function Rows<T>({
  title,
  path,
  rows,
  columns,
  idOf,
  removal,
  found,
}: Omit<ThingsProps<T>, "form"> & { rows: readonly T[]; found: Loaded<T[]> }) {
  const leaving = useSignal<T | undefined>(undefined);
  return (
    <div class="wide" tabIndex={0}>
      <table class="rows">
        <caption class="unseen">{title}</caption>
        <Heads names={columns.map(({ name }) => name)} hasRemoval={removal !== undefined} />
        <tbody>
          {rows.map((row) => (
            <tr key={idOf(row)}>
              {columns.map(({ name, of }) => (
                <td key={name}>
                  <bdi>{visible(of(row))}</bdi>
                </td>
              ))}
              {removal && (
                <td class="actions">
                  {mayWrite.value && removal(row) && (
                    <button
                      type="button"
                      class="small"
                      aria-label={`Remove ${visible(columns[0]?.of(row) ?? "")}`}
                      onClick={() => (leaving.value = row)}
                    >
                      Remove
                    </button>
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {leaving.value !== undefined && (
        <Removal
          words={removal?.(leaving.value) ?? ""}
          path={`${path}/${idOf(leaving.value)}`}
          onClose={() => (leaving.value = undefined)}
          onDone={found.reload}
        />
      )}
    </div>
  );
}

function Heads({ names, hasRemoval }: { names: readonly string[]; hasRemoval: boolean }) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th scope="col" key={name}>
            {name}
          </th>
        ))}
        {hasRemoval && <th scope="col">{mayWrite.value ? <span class="unseen">remove</span> : null}</th>}
      </tr>
    </thead>
  );
}

function Removal({ words, path, onClose, onDone }: { words: string; path: string; onClose: () => void; onDone: () => void }) {
  const error = useSignal<string | undefined>(undefined);
  const remove = async (): Promise<void> => {
    try {
      await call(path, { method: "DELETE" });
      onClose();
      onDone();
    } catch (failure) {
      error.value = wordsOf(failure);
    }
  };
  return (
    <Dialog title="Remove?" onClose={onClose}>
      <p>{words}</p>
      <Problem words={error.value} />
      <div class="actions">
        <button type="button" onClick={onClose}>
          Keep
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          Remove
        </button>
      </div>
    </Dialog>
  );
}

export interface MakeProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** Throws what is to be shown. */
  readonly onMake: (typed: Record<string, string>) => Promise<void>;
}

/** A form in one line. */
export function Make({ label, children, onMake }: MakeProps) {
  const error = useSignal<string | undefined>(undefined);
  const send = async (form: HTMLFormElement): Promise<void> => {
    try {
      await onMake(Object.fromEntries(new FormData(form)) as Record<string, string>);
      error.value = undefined;
      form.reset();
    } catch (failure) {
      error.value = wordsOf(failure);
    }
  };
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        void send(event.currentTarget);
      }}
    >
      {children}
      <button type="submit" class="primary">
        {label}
      </button>
      <Problem words={error.value} />
    </form>
  );
}
