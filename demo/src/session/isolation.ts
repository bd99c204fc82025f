/**
 * If the host sets no isolation headers, the page installs a service worker that adds them, and reloads once.
 */
const TRIED = 'kvferry isolation';

/** True if the page is about to reload. Never rejects. */
export async function reloadIsolated(): Promise<boolean> {
  try {
    if (globalThis.crossOriginIsolated) {
      sessionStorage.removeItem(TRIED);
      return false;
    }
    // Only once: a browser that refuses must not reload this page forever.
    if (!globalThis.isSecureContext || !navigator.serviceWorker || sessionStorage.getItem(TRIED))
      return false;
    await navigator.serviceWorker.register('./isolation.js');
    await navigator.serviceWorker.ready;
    // Set only after success: a failure, as without a network, is tried again at the next load.
    sessionStorage.setItem(TRIED, 'yes');
    location.reload();
    return true;
  } catch {
    // The browser refuses, or denies the storage that would record the attempt.
    return false;
  }
}
