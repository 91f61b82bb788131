// What the admin client tells its user when it cannot do something: one sentence and what to do next, without a stack.

export class Problem extends Error {
  override readonly name: string = "Problem";
}

/** The backend has no such thing. */
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
