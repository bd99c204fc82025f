/** Fetches code that the page's first view does not need, when it is needed. */
import { type ReadonlySignal, signal } from '@preact/signals';

const lost = signal(false);
/** True once some code did not arrive. Browsers remember that: until a reload, fetching it again fails at once. */
export const codeLost: ReadonlySignal<boolean> = lost;

/** What `load`, an import(), gives. Throws Error with a sentence for readers if its file does not arrive. */
export async function fetchCode<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    lost.value = true;
    throw new Error('The code for this could not be fetched: reload the page, and do it again.', { cause });
  }
}
