// What the admin client prints when it cannot do something: one sentence and what to do next, without a stack.

export class Problem extends Error {
  override readonly name: string = "Problem";
}

/** What was typed is wrong, and typing it again is no use: exit code 2. */
export class WrongUsage extends Problem {
  override readonly name: string = "WrongUsage";
}

/** The backend does not take a value. The message names it as the API does. */
export class RefusedValue extends WrongUsage {
  override readonly name = "RefusedValue";
  /** Of the API, such as `logs.window`. */
  readonly field: string;
  /** What is said of it. */
  readonly words: string;

  constructor(field: string, words: string) {
    super(`${field}: ${words}`);
    this.field = field;
    this.words = words;
  }
}

/** The backend has no such resource. */
export class Missing extends Problem {
  override readonly name = "Missing";
}

/** The user ended it before it was done. */
export class Interrupted extends Problem {
  override readonly name = "Interrupted";
}

/** It may be otherwise in a moment: the backend is away or busy. */
export class PassingProblem extends Problem {
  override readonly name = "PassingProblem";
  readonly retryAfterS: number;

  constructor(message: string, { retryAfterS = 0, cause }: { retryAfterS?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.retryAfterS = retryAfterS;
  }
}
