/** What can go wrong with `npm start` and is the user's to mend: printed without a stack. */
export class StartError extends Error {
  /** 2 where another try is no use, because what was typed is wrong. */
  readonly exitCode: 1 | 2;

  constructor(message: string, { exitCode = 1 }: { exitCode?: 1 | 2 } = {}) {
    super(message);
    this.exitCode = exitCode;
  }
}
