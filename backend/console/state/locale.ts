// Replaces invalid languages: browsers with LANG=C.UTF-8 or POSIX report a language such as `en-US@posix`, which `Intl` refuses. uPlot
// formats numbers with it when it is loaded, which would leave a blank page. Imported first, so that libraries only see a valid language.
const FALLBACK = "en";

export function usableLanguage(language: string): string {
  try {
    return Intl.NumberFormat.supportedLocalesOf(language)[0] ?? FALLBACK;
  } catch {
    return FALLBACK;
  }
}

/** Replaces the language of the browser if `Intl` refuses it. */
export function repairLanguage(browser: Navigator): void {
  const language = usableLanguage(browser.language);
  if (language === browser.language) return;
  try {
    Intl.getCanonicalLocales(browser.language);
  } catch {
    Object.defineProperty(browser, "language", { value: language, configurable: true });
    Object.defineProperty(browser, "languages", { value: [language], configurable: true });
  }
}

repairLanguage(navigator);
