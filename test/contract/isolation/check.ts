// Requests a route as each organisation, for its own data and for the other's, and reports what is wrong with the responses.
import { isDeepStrictEqual } from "node:util";
import { type Answer, call } from "../../fixtures/processes.ts";
import type { BackendOfFile } from "../../fixtures/backend-of-file.ts";
import type { Party, Served } from "./parties.ts";
import type { IsolatedRoute } from "./isolation-routes.ts";

/** `owner`: an organisation does not get its own data, yet. `leak`: it gets another's. */
interface Problem {
  readonly kind: "owner" | "leak";
  readonly text: string;
}

/** Resolves to the leaks, once there is one or each organisation gets its own data. */
export async function leaksOf(served: BackendOfFile, route: IsolatedRoute, parties: readonly [Party, Party]): Promise<string[]> {
  const asked = async (): Promise<string[]> => {
    const problems = await problemsOf(served, route, parties);
    const leaks = leaksAmong(problems);
    if (leaks.length === 0 && problems.length > 0) throw new Error(problems.map(({ text }) => text).join("\n"));
    return leaks;
  };
  return await served.shows(`GET ${route.path}: each organisation gets its own data`, asked, WITHIN_MS);
}

const WITHIN_MS = 90_000;

/** The same at once: a backend that is broken on purpose may never answer with its own data. */
export async function leaksNow(served: Served, route: IsolatedRoute, parties: readonly [Party, Party]): Promise<string[]> {
  return leaksAmong(await problemsOf(served, route, parties));
}

function leaksAmong(problems: readonly Problem[]): string[] {
  return problems.filter(({ kind }) => kind === "leak").map(({ text }) => text);
}

async function problemsOf(served: Served, route: IsolatedRoute, [red, blue]: readonly [Party, Party]): Promise<Problem[]> {
  const found = [];
  for (const [asker, other] of [
    [red, blue],
    [blue, red],
  ] as const) {
    for (const subject of [asker, other]) {
      const path = (route.of ?? (() => route.path))(subject);
      const answer = await (route.send ?? ask)(served, asker, path);
      const who = `${asker.word} asks ${path}, ${answer.status}`;
      const leaked = markersIn(answer, other).filter((marker) => !path.includes(marker));
      if (leaked.length > 0) found.push({ kind: "leak" as const, text: `${who}: it contains ${leaked.join(", ")}` });
      if (subject === asker || path === (route.of ?? (() => route.path))(asker)) found.push(...ownerProblems(route, asker, answer, who));
      else if (answer.status === 200 && numberOf(route, asker, answer))
        found.push({ kind: "leak" as const, text: `${who}: it answers for another organisation's id` });
    }
  }
  return found;
}

async function ask({ apiUrl }: Served, { token }: Party, path: string): Promise<Answer> {
  return await call("GET", `${apiUrl}${path}`, { bearer: token });
}

function ownerProblems(route: IsolatedRoute, asker: Party, answer: Answer, who: string): Problem[] {
  const status = route.status ?? 200;
  if (answer.status !== status) return [{ kind: "owner", text: `${who} instead of ${status}: ${answer.text.slice(0, 300)}` }];
  if (route.shows === "nothing") return [];
  if (route.shows === "markers")
    return markersIn(answer, asker).length > 0 ? [] : [{ kind: "owner", text: `${who}: nothing of its own: ${answer.text.slice(0, 300)}` }];
  const [number, wanted] = [route.shows.number(answer.json, asker), route.shows.is(asker)];
  if (isDeepStrictEqual(number, wanted)) return [];
  return [
    { kind: isMore(number, wanted) ? "leak" : "owner", text: `${who}: ${JSON.stringify(number)} instead of ${JSON.stringify(wanted)}` },
  ];
}

/** Rows of another organisation only make a number larger. */
function isMore(number: unknown, wanted: unknown): boolean {
  const sum = (value: unknown): number => (Array.isArray(value) ? value.map(Number).reduce((a, b) => a + b, 0) : Number(value));
  return sum(number) > sum(wanted);
}

function numberOf({ shows }: IsolatedRoute, asker: Party, { json }: Answer): boolean {
  return typeof shows === "object" && isDeepStrictEqual(shows.number(json, asker), shows.is(asker));
}

function markersIn({ text }: Answer, { markers }: Party): string[] {
  return markers.filter((marker) => text.includes(marker));
}
