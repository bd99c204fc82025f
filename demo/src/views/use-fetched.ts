/** Code that the page's first view does without: fetched once it is wanted. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

/** What `fetch` gave; null until then, 'lost' when it could not be had. */
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
