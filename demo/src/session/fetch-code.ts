/** Fetches code that the page's first view does not need, when it is needed. */
import { type ReadonlySignal, signal } from '@preact/signals';

const lost = signal(false);
/** True once some code did not arrive. Browsers remember that: until a reload, fetching it again fails at once. */
export const codeLost: ReadonlySignal<boolean> = lost;

const SENTENCE = 'The code for this could not be fetched: reload the page, and do it again.';

/** Call when code did not arrive that is not fetched by fetchCode(), such as a worker's. */
export function loseCode(): void {
  lost.value = true;
}

/** Watches the imports in `src`, which do not use fetchCode(): the build reports those that fail. Call once, in a browser. */
export function watchCode(): void {
  addEventListener('vite:preloadError', (event: Event & { payload?: Error }) => {
    loseCode();
    if (event.payload) event.payload.message = SENTENCE;
  });
}

/** What `load`, an import(), gives. Throws Error with a sentence for readers if its file does not arrive. */
export async function fetchCode<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    loseCode();
    throw new Error(SENTENCE, { cause });
  }
}
