/** Fetches code that the page's first view does not need, when it is needed. */
import { computed, type ReadonlySignal, signal } from '@preact/signals';

/** Scripts of threads, which may start the next time, and modules: browsers remember until a reload that one is lost. */
type Code = 'modules' | 'engines' | 'fleet';

const lost = signal<ReadonlySet<Code>>(new Set());
/** True while some code is known not to arrive. */
export const codeLost: ReadonlySignal<boolean> = computed(() => lost.value.size > 0);

const SENTENCE = 'The code for this could not be fetched: reload the page, and do it again.';

/** Call when code did not arrive that is not fetched by fetchCode(), such as a worker's. */
export function loseCode(code: Code): void {
  lost.value = new Set([...lost.peek(), code]);
}

/** Call when a thread runs: its script did arrive. */
export function findCode(code: Exclude<Code, 'modules'>): void {
  if (lost.peek().has(code)) lost.value = new Set([...lost.peek()].filter((other) => other !== code));
}

/** Watches the imports in `src`, which do not use fetchCode(): the build reports those that fail. Call once, in a browser. */
export function watchCode(): void {
  addEventListener('vite:preloadError', (event: Event & { payload?: Error }) => {
    loseCode('modules');
    if (event.payload) event.payload.message = SENTENCE;
  });
}

/** What `load`, an import(), gives. Throws Error with a sentence for readers if its file does not arrive. */
export async function fetchCode<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    loseCode('modules');
    throw new Error(SENTENCE, { cause });
  }
}
