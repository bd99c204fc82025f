/** Fetches code that the page's first view does not need, when it is needed. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

/** The result of `fetch`; null until it arrives, 'lost' if it failed. */
export function useFetched<T>(wanted: boolean, fetch: () => Promise<T>): T | 'lost' | null {
  const fetched = useSignal<T | 'lost' | null>(null);
  useEffect(() => {
    if (!wanted || fetched.peek() !== null) return;
    fetch().then(
      (value) => {
        fetched.value = value;
      },
      () => {
        fetched.value = 'lost';
      },
    );
  }, [wanted]);
  return fetched.value;
}
