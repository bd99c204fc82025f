/** The session's clock for views. It is updated each frame or each second while something runs. */
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

/** The clock for countdowns in words, updated each second while `counts` is true. */
export function useSeconds(counts: boolean, nowMs: () => number): number {
  const ticks = useSignal(0);
  useEffect(() => {
    if (!counts) return;
    const timer = setInterval(() => {
      ticks.value++;
    }, 1000);
    return () => clearInterval(timer);
  }, [counts, ticks]);
  ticks.value;
  return nowMs();
}
