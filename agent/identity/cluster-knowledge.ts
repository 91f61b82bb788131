// What one agent knows of its cluster's identity: the Secret as last seen, the credential to sign with, and what the backend has said of
// keys and tokens. Invariants: it does no I/O; a credential outlives a Secret that is deleted; what is known of a key is known by its hash,
// so that it never counts for the next key.
import { rotationWaitMs, tokenHash } from "../credentials/cluster-secret.ts";
import type { SecretView } from "../credentials/secret-follower.ts";
import type { Credential } from "../credentials/store.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import type { Observed } from "./execute.ts";
import type { Situation } from "./plan.ts";

export class ClusterKnowledge {
  readonly #refusedTokens = new Set<string>();
  #seen: { secret: SecretView } | undefined;
  #credential: Credential | undefined;
  #credentialToken: string | undefined;
  #keyAge: Situation["keyAge"];
  #suspectKey: string | undefined;
  #refusedKey: string | undefined;

  get credential(): Credential | undefined {
    return this.#credential;
  }

  /** The Secret was read at least once, be it that there is none. */
  get hasSeenSecret(): boolean {
    return this.#seen !== undefined;
  }

  /** There is a key, and as far as is known the backend takes it. */
  get signs(): boolean {
    return this.#credential !== undefined && keyHash(this.#credential.apiKey) !== this.#refusedKey;
  }

  /** Age of the current key; undefined until the backend reported it. */
  get keyAgeDays(): number | undefined {
    const isKnown = this.#credential && this.#keyAge?.keyHash === keyHash(this.#credential.apiKey);
    return isKnown ? this.#keyAge?.days : undefined;
  }

  /** Answers true when there is another key to sign with. */
  adopt(secret: SecretView): boolean {
    const before = this.#credential?.apiKey;
    this.#seen = { secret };
    if (secret?.credential) {
      this.#credential = secret.credential;
      this.#credentialToken = secret.usedTokenHash;
    }
    return this.#credential?.apiKey !== before;
  }

  /** The backend has taken this key, and says its age. Answers true when that is news. */
  noteKeyAge({ apiKey }: Credential, days: number): boolean {
    const hash = keyHash(apiKey);
    if (hash === this.#refusedKey) this.#refusedKey = undefined;
    const isNews = this.#keyAge?.keyHash !== hash || this.#keyAge.days !== days;
    this.#keyAge = { keyHash: hash, days };
    return isNews;
  }

  /** A request was answered 401 with this key, which is still the one in the Secret. */
  suspect({ apiKey }: Credential): void {
    this.#suspectKey = keyHash(apiKey);
  }

  /** The credential that the backend is to be asked about, once for each suspicion; undefined when there is none. */
  takeSuspect(): Credential | undefined {
    const suspect = this.#suspectKey;
    this.#suspectKey = undefined;
    const isMeant = this.#credential && suspect === keyHash(this.#credential.apiKey) && suspect !== this.#refusedKey;
    return isMeant ? this.#credential : undefined;
  }

  note(observed: Observed): void {
    if (!observed) return;
    if ("refusedToken" in observed) this.#refusedTokens.add(observed.refusedToken);
    else this.#refusedKey = observed.refusedKey;
  }

  /** For a plan. */
  situation(installToken: string | undefined, keyRotationDays: number): Situation {
    const secret = this.#seen?.secret;
    return {
      secret,
      remembered: this.#credential,
      ownTokenHash: installToken === undefined ? undefined : tokenHash(installToken),
      rememberedTokenHash: this.#credentialToken,
      refusedTokens: this.#refusedTokens,
      refusedKey: this.#refusedKey,
      keyAge: this.#keyAge,
      keyRotationDays,
      rotationWaitMs: secret ? rotationWaitMs(secret) : 0,
    };
  }
}
