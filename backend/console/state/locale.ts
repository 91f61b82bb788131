// Replaces invalid languages: browsers with LANG=C.UTF-8 or POSIX report a language such as `en-US@posix`, which `Intl` refuses. uPlot
// formats numbers with it when it is loaded, which would leave a blank page. Imported first, so that libraries only see a valid language.
const FALLBACK = "en";

try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: FALLBACK, configurable: true });
  Object.defineProperty(navigator, "languages", { value: [FALLBACK], configurable: true });
}
