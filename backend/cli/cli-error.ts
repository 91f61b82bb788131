// What the admin client tells its user when it cannot do something: one sentence and what to do next, without a stack.

export class Problem extends Error {
  override readonly name = "Problem";
}
