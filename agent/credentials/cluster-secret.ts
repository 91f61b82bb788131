// Reads and writes the Secret that stores the cluster's identity; no other code knows its layout. The chart creates the Secret empty; an
// agent with an identity token may create it if it is missing, and none may list Secrets. Invariants: each write names the version that it is based on, so no agent overwrites a newer write of
// another; to survive a crash, a call's Idempotency-Key is stored before the call, and removed by the write that stores the call's result and
// the hash of a used install token.
import { type Secret, KubernetesError } from "../kubernetes/transport.ts";
import type { KubernetesApi, ObjectName } from "../kubernetes/api.ts";
import { type RegisterClusterRequest, ROTATION_OVERLAP_MS } from "../../common/protocol/enrolment.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import type { Credential } from "./credential-store.ts";

/** Keys of the Secret's `data`. */
const CLUSTER_ID = "cluster-id";
const API_KEY = "api-key";
const KEY_CREATED_AT = "key-created-at";
const ORG_ID = "org-id";
const USED_INSTALL_TOKEN = "used-install-token-sha256";
const PENDING_ENROLMENT = "pending-enrolment";
const PENDING_ROTATION = "pending-rotation";
const NO_ROTATION_BEFORE = "no-rotation-before";
/** Annotation that requests a rotation; its value is the time of the request, for operators to read. */
export const ROTATE_REQUESTED = "atherops.io/rotate-requested";

/** An enrolment that was stored before its call. It includes the body, because the same Idempotency-Key with another body is a 422. */
export interface PendingEnrolment {
  readonly idempotencyKey: string;
  readonly body: RegisterClusterRequest;
}

/** A rotation that was stored before its call: the hash of the key that it replaces. */
export interface PendingRotation {
  readonly idempotencyKey: string;
  readonly keyHash: string;
}

/** Content of the Secret. */
export interface SecretContent {
  readonly credential?: Credential;
  /** SHA-256 (hex) of the install token that created the current identity. */
  readonly usedTokenHash?: string;
  /** By SHA-256 of the install token, so that agents with an older and a newer token do not overwrite each other's entry. */
  readonly pendingEnrolments: Readonly<Record<string, PendingEnrolment>>;
  readonly pendingRotation?: PendingRotation;
  /** RFC 3339; until then, the backend still accepts the key before the last rotation and refuses another rotation. */
  readonly noRotationBefore?: string;
  readonly rotateRequested: boolean;
}

/** The Secret as it was read: its content, and the object, so that a write can detect changes since then. */
export interface SecretSnapshot extends SecretContent {
  readonly version: string;
  readonly object: Secret;
}

export class ClusterSecret {
  readonly objectName: ObjectName;
  readonly #api: KubernetesApi;

  constructor(api: KubernetesApi, objectName: ObjectName) {
    this.#api = api;
    this.objectName = objectName;
  }

  /** Reads the Secret from the API server; undefined if it does not exist; other refusals throw KubernetesError. */
  async read(signal: AbortSignal): Promise<SecretSnapshot | undefined> {
    try {
      return parseSecret(await this.#api.readSecret(this.objectName, signal));
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Creates the Secret without a key. Throws KubernetesError 409 if it exists. */
  async create(signal: AbortSignal): Promise<void> {
    await this.#api.createSecret({ metadata: this.objectName, type: "Opaque" }, signal);
  }

  /** Replaces the content, keeping other data. Throws KubernetesError 409 if the Secret has changed since `base` was read. */
  async write(base: SecretSnapshot, content: SecretContent, signal: AbortSignal): Promise<SecretSnapshot> {
    return parseSecret(await this.#api.replaceSecret(this.objectName, renderSecret(base.object, content), signal));
  }

  /** Requests a rotation, regardless of the Lease's holder. Resolves once the API server has stored the request. */
  async requestRotation(signal: AbortSignal): Promise<void> {
    const annotations = { [ROTATE_REQUESTED]: new Date().toISOString() };
    await this.#api.patchSecret(this.objectName, { metadata: { annotations } }, signal);
  }
}

/** Parses the layout. Fields that are missing, empty or malformed count as absent, so that a damaged Secret is repaired. */
export function parseSecret(object: Secret): SecretSnapshot {
  const text = (key: string): string =>
    Buffer.from(object.data?.[key] ?? "", "base64")
      .toString("utf8")
      .trim();
  const [id, apiKey, org] = [text(CLUSTER_ID), text(API_KEY), text(ORG_ID)];
  const credential = { id, apiKey, keyCreatedAt: text(KEY_CREATED_AT), ...(org && { org }) };
  const pendingRotation = parseJson(text(PENDING_ROTATION));
  const pendingEnrolments = Object.entries(parseJson(text(PENDING_ENROLMENT)) ?? {}).filter(([, pending]) => hasIdempotencyKey(pending));
  return {
    version: object.metadata?.resourceVersion ?? "",
    object,
    ...(id && apiKey && { credential }),
    ...(text(USED_INSTALL_TOKEN) && { usedTokenHash: text(USED_INSTALL_TOKEN) }),
    pendingEnrolments: Object.fromEntries(pendingEnrolments) as Record<string, PendingEnrolment>,
    ...(hasIdempotencyKey(pendingRotation) && { pendingRotation: pendingRotation as PendingRotation }),
    ...(text(NO_ROTATION_BEFORE) && { noRotationBefore: text(NO_ROTATION_BEFORE) }),
    rotateRequested: object.metadata?.annotations?.[ROTATE_REQUESTED] !== undefined,
  };
}

/** Returns the object to write: `base` with its content replaced by `content`. */
export function renderSecret(base: Secret, content: SecretContent): Secret {
  const { credential, pendingEnrolments, pendingRotation } = content;
  const texts: Record<string, string | undefined> = {
    [CLUSTER_ID]: credential?.id,
    [API_KEY]: credential?.apiKey,
    [KEY_CREATED_AT]: credential?.keyCreatedAt,
    [ORG_ID]: credential?.org,
    [USED_INSTALL_TOKEN]: content.usedTokenHash,
    [PENDING_ENROLMENT]: Object.keys(pendingEnrolments).length > 0 ? JSON.stringify(pendingEnrolments) : undefined,
    [PENDING_ROTATION]: pendingRotation && JSON.stringify(pendingRotation),
    [NO_ROTATION_BEFORE]: content.noRotationBefore,
  };
  const data = { ...base.data };
  for (const [key, value] of Object.entries(texts)) {
    if (value === undefined) delete data[key];
    else data[key] = Buffer.from(value, "utf8").toString("base64");
  }
  const { [ROTATE_REQUESTED]: requested, ...annotations } = base.metadata?.annotations ?? {};
  if (content.rotateRequested) annotations[ROTATE_REQUESTED] = requested ?? new Date().toISOString();
  return { ...base, metadata: { ...base.metadata, annotations }, data };
}

/** Returns how long a requested rotation must wait; at most the overlap, in case the nodes' clocks differ. */
export function rotationWaitMs({ noRotationBefore }: SecretContent, nowMs = Date.now()): number {
  const leftMs = Date.parse(noRotationBefore ?? "") - nowMs;
  return leftMs > 0 ? Math.min(leftMs, ROTATION_OVERLAP_MS) : 0;
}

/** True if the pending rotation replaces the current key; otherwise, it is a leftover. */
export function isRotating(content: SecretContent): boolean {
  return content.credential !== undefined && content.pendingRotation?.keyHash === keyHash(content.credential.apiKey);
}

function hasIdempotencyKey(pending: unknown): boolean {
  return typeof (pending as Partial<PendingRotation> | null | undefined)?.idempotencyKey === "string";
}

function parseJson(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
