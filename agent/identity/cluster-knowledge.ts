// Keeps an agent's knowledge of its cluster's identity: the last known Secret, the credential to sign with, and the backend's responses about
// keys and tokens. Invariants: it does no I/O; the credential is kept if the Secret is deleted; knowledge about a key is stored by the key's
// hash, so that it never applies to the next key.
import { rotationWaitMs } from "../credentials/cluster-secret.ts";
import type { SecretView } from "../credentials/secret-follower.ts";
import type { Credential } from "../credentials/credential-store.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import type { EnrolmentToken } from "../enrolment-token.ts";
import type { Refusal } from "./execute.ts";
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

  /** True once the Secret was read, even if it does not exist. */
  get hasSeenSecret(): boolean {
    return this.#seen !== undefined;
  }

  /** True if there is a key that the backend, as far as is known, accepts. */
  get signs(): boolean {
    return this.#credential !== undefined && keyHash(this.#credential.apiKey) !== this.#refusedKey;
  }

  /** Age of the current key; undefined until the backend reported it. */
  get keyAgeDays(): number | undefined {
    const isKnown = this.#credential && this.#keyAge?.keyHash === keyHash(this.#credential.apiKey);
    return isKnown ? this.#keyAge?.days : undefined;
  }

  /** Returns true if there is a new key to sign with. */
  adopt(secret: SecretView): boolean {
    const before = this.#credential?.apiKey;
    this.#seen = { secret };
    if (secret?.credential) {
      this.#credential = secret.credential;
      this.#credentialToken = secret.usedTokenHash;
    }
    return this.#credential?.apiKey !== before;
  }

  /** Records that the backend accepted this key, and the key's age. Returns true if that is new. */
  noteKeyAge({ apiKey }: Credential, days: number): boolean {
    const hash = keyHash(apiKey);
    if (hash === this.#refusedKey) this.#refusedKey = undefined;
    const isNews = this.#keyAge?.keyHash !== hash || this.#keyAge.days !== days;
    this.#keyAge = { keyHash: hash, days };
    return isNews;
  }

  /** Records that a request with this key, which is still the one in the Secret, was answered with 401. */
  suspect({ apiKey }: Credential): void {
    this.#suspectKey = keyHash(apiKey);
  }

  /** Returns the credential to check with the backend, once per suspicion; undefined if there is none. */
  takeSuspect(): Credential | undefined {
    const suspect = this.#suspectKey;
    this.#suspectKey = undefined;
    const isCurrent = this.#credential && suspect === keyHash(this.#credential.apiKey) && suspect !== this.#refusedKey;
    return isCurrent ? this.#credential : undefined;
  }

  noteRefusal(refusal: Refusal): void {
    if (!refusal) return;
    if ("refusedToken" in refusal) this.#refusedTokens.add(refusal.refusedToken);
    else this.#refusedKey = refusal.refusedKey;
  }

  /** Input for a plan. */
  situation(ownToken: EnrolmentToken | undefined, keyRotationDays: number): Situation {
    const secret = this.#seen?.secret;
    return {
      secret,
      remembered: this.#credential,
      ownToken,
      rememberedTokenId: this.#credentialToken,
      refusedTokens: this.#refusedTokens,
      refusedKey: this.#refusedKey,
      keyAge: this.#keyAge,
      keyRotationDays,
      rotationWaitMs: secret ? rotationWaitMs(secret) : 0,
    };
  }
}
