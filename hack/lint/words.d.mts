export interface Word {
  readonly pattern: RegExp;
  readonly use: string;
}
export const WORDS: readonly Word[];
export function privateWords(text: string): { word: string; use: string; index: number }[];
export function wordsOfName(name: string): string;
