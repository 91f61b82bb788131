// What all text of a rule must be, and how a field that is not is refused. Invariant: an answer names the field.
import { ApiError } from "../errors.ts";

/** Control characters, and the byte order mark, which some database drivers swallow. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\ufeff]/;
/** The same, but tabs and line ends are fine. */
export const EXCEPT_LINES = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufeff]/;

/** Throws ApiError `invalid_field` naming the field. */
export function checkText(field: string, text: string, refused = CONTROL): void {
  const control = refused.exec(text)?.[0];
  if (control !== undefined) {
    throw invalid(field, `must not hold control characters (U+${control.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase()})`);
  }
  if (!text.isWellFormed()) throw invalid(field, "must be well-formed Unicode: it holds half a surrogate pair");
}

/** ApiError 400 that names the field. */
export function invalid(field: string, reason: string): ApiError {
  return new ApiError("invalid_field", `${field}: ${reason}`);
}
