/** Code that a view fetches when it is first needed. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { fetchCode } from '../session/fetch-code.ts';

/** The result of `fetch`; null until it arrives, 'lost' if it failed. */
export function useFetched<T>(wanted: boolean, fetch: () => Promise<T>): T | 'lost' | null {
  const fetched = useSignal<T | 'lost' | null>(null);
  useEffect(() => {
    if (!wanted || fetched.peek() !== null) return;
    fetchCode(fetch).then(
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
