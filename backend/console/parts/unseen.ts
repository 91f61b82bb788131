// Characters that are not seen, or turn round what follows them: control characters but tabs and line breaks, and those of direction.
// oxlint-disable-next-line no-control-regex -- it is what is looked for
export const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
