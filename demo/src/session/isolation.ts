/**
 * Where the host sets no isolation headers, a service worker of the page's own can: it is installed once, and the page
 * loaded again through it.
 */
const TRIED = 'kvferry isolation';

/** True when the page is about to load again. Never rejects. */
export async function reloadIsolated(): Promise<boolean> {
  try {
    if (globalThis.crossOriginIsolated) {
      sessionStorage.removeItem(TRIED);
      return false;
    }
    // Once only: a browser that refuses must not load this page for ever.
    if (!globalThis.isSecureContext || !navigator.serviceWorker || sessionStorage.getItem(TRIED))
      return false;
    await navigator.serviceWorker.register('./isolation.js');
    await navigator.serviceWorker.ready;
    // What could not be had before, as without a network, is asked for again when the page is loaded again.
    sessionStorage.setItem(TRIED, 'yes');
    location.reload();
    return true;
  } catch {
    // The browser refuses, or denies the storage that would know of the try.
    return false;
  }
}
