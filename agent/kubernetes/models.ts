// The official client's models that the agent reads and writes, as plain data: their classes have no behaviour, and copies of them are made
// field by field.
import type { V1Lease } from "@kubernetes/client-node/dist/gen/models/V1Lease.js";
import type { V1Secret } from "@kubernetes/client-node/dist/gen/models/V1Secret.js";

type Data<T> = T extends Date ? T : T extends object ? { [Field in keyof T]: Data<T[Field]> } : T;

export type Lease = Data<V1Lease>;
export type Secret = Data<V1Secret>;
