// A backend with its engines as a real process, one organisation, and tokens to write and read with.
import {
  adminPassword,
  type BackendPlace,
  backendPlace,
  login,
  makeTenant,
  startBackend,
  type Tenant,
} from "../fixtures/backend-process.ts";
import { call } from "../fixtures/processes.ts";

export interface Product extends AsyncDisposable {
  readonly place: BackendPlace;
  readonly tenant: Tenant;
  readonly ingestToken: string;
  readonly readToken: string;
}

export async function startProduct(folder: string, env: NodeJS.ProcessEnv = {}): Promise<Product> {
  await using stack = new AsyncDisposableStack();
  const place = await backendPlace(folder, { INGEST_TOKENS: "true", ...env });
  stack.use(await startBackend(place));
  const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "compliance");
  const createToken = async (kind: "ingest-tokens" | "read-tokens"): Promise<string> => {
    const { token } = await create(`${place.apiUrl}/api/${kind}`, tenant, { name: "compliance" });
    return String(token);
  };
  const [ingestToken, readToken] = [await createToken("ingest-tokens"), await createToken("read-tokens")];
  const started = stack.move();
  return { place, tenant, ingestToken, readToken, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

/** Creates a resource as the organisation's administrator, and returns it. */
export async function create(url: string, { token }: Tenant, body: object): Promise<Record<string, unknown>> {
  const answer = await call("POST", url, { bearer: token, body });
  if (answer.status !== 201) throw new Error(`${url}: ${answer.status} ${answer.text}`);
  return answer.json;
}
