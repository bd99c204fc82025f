/** Chromium started under a POSIX locale calls its language 'en-US@posix', which Intl refuses and uPlot dies of: mend it before uPlot loads. */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
}
