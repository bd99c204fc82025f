/**
 * If the host sets no isolation headers, the page installs a service worker that adds them, and reloads once.
 */
const TRIED = 'kvferry isolation';
/** Once its script was fetched, a service worker starts at once; in some browsers it never does. */
const START_MS = 10_000;

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
    if (!(await started(navigator.serviceWorker))) return false;
    // Set only after success: a failure, as without a network, is tried again at the next load.
    sessionStorage.setItem(TRIED, 'yes');
    location.reload();
    return true;
  } catch {
    // The browser refuses, or denies the storage that would record the attempt.
    return false;
  }
}

/** False if no service worker is active in time: `ready` alone would then wait forever. */
const started = ({ ready }: ServiceWorkerContainer): Promise<boolean> =>
  Promise.race([
    ready.then(() => true),
    new Promise<boolean>((resolve) => {
      setTimeout(() => resolve(false), START_MS);
    }),
  ]);
