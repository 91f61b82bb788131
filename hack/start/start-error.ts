/** What can go wrong with `npm start` and is the user's to mend: printed without a stack. */
export class StartError extends Error {}
