/** Under a POSIX locale Chromium's language is 'en-US@posix', which Intl rejects and which breaks uPlot. Fix it before uPlot loads. */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
}
