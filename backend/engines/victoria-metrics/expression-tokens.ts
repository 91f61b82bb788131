// Splits a MetricsQL expression into tokens, as the engine's own lexer does (metricsql v0.87, lexer.go). Invariant: strings, comments and
// brackets are distinguished exactly as the engine does, because a token that ends elsewhere could hide an operator.

export type TokenKind = "name" | "text" | "number" | "symbol";

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

/** The expression is invalid; the message is for the user. */
export class ExpressionError extends Error {
  override readonly name = "ExpressionError";
}

const SKIPPED = /(?:[ \t\n\v\f\r]|#[^\n]*(?:\n|$))+/y;
interface Kind {
  readonly kind: TokenKind;
  /** A token is of this kind if and only if it begins with one of these characters. */
  readonly begins: string;
  readonly pattern: RegExp;
}

const KINDS: readonly Kind[] = [
  { kind: "symbol", begins: "!<>=~-+*/%^(){}[],@", pattern: /==|!=|>=|<=|=~|!~|[-+*/%^<>=(){}[\],@]/y },
  {
    kind: "number",
    begins: "0123456789.$",
    // The engine would read an unknown letter after a number as a new word, so `1or` is rejected.
    pattern:
      /(?:0[xX][0-9a-fA-F]+|(?:\d|\.\d)[\d_.]*(?:[eE][+-]?\d+|(?:ms|[smhdwyi])(?:\d[\d.]*(?:ms|[smhdwyi]))*|[kmgt](?:i?b|i)?)?)(?![\p{L}\d_.\\])|\$__(?:rate_)?interval/iuy,
  },
  { kind: "text", begins: "\"'`", pattern: /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|`(?:[^`\\]|\\[\s\S])*`/y },
];
/** Tokens that begin with any other character. */
const NAME: Omit<Kind, "begins"> = {
  kind: "name",
  pattern:
    /(?:[\p{L}_:]|\\(?:[xX][0-9a-fA-F]{2}|[uU][0-9a-fA-F]{4}|[^xXuU]))(?:[\p{L}_:0-9.]|\\(?:[xX][0-9a-fA-F]{2}|[uU][0-9a-fA-F]{4}|[^xXuU]))*/uy,
};

/** Throws ExpressionError for an invalid token, and the errors of `look`, which is called with each token before the next one is read. */
export function tokenize(expression: string, look: (token: Token) => void): Token[] {
  const tokens: Token[] = [];
  let at = skip(expression, 0);
  while (at < expression.length) {
    const token = tokenAt(expression, at);
    look(token);
    tokens.push(token);
    at = skip(expression, at + token.text.length);
  }
  return tokens;
}

function tokenAt(expression: string, at: number): Token {
  const first = expression.charAt(at);
  const { kind, pattern } = KINDS.find(({ begins }) => begins.includes(first)) ?? NAME;
  pattern.lastIndex = at;
  const text = pattern.exec(expression)?.[0];
  if (text) return { kind, text };
  throw new ExpressionError(`cannot read ${JSON.stringify(expression.slice(at, at + 20))} at character ${at + 1}`);
}

function skip(expression: string, at: number): number {
  SKIPPED.lastIndex = at;
  return at + (SKIPPED.exec(expression)?.[0].length ?? 0);
}
