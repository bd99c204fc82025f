/** The session's clock as a signal that moves with each frame while something runs, and stands still otherwise. */
import { type ReadonlySignal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

export function useNow(running: boolean, nowMs: () => number): ReadonlySignal<number> {
  const now = useSignal(nowMs());
  useEffect(() => {
    now.value = nowMs();
    if (!running) return;
    let pending = requestAnimationFrame(function tick() {
      now.value = nowMs();
      pending = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(pending);
  }, [running, nowMs, now]);
  return now;
}
