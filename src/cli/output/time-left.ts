/** Estimates the time left for equal steps from the finished ones. */
import { formatSeconds } from '../../measure/format.ts';

export interface TimeLeft {
  /** 'about 12 s left', or the number of steps before the first one has finished. */
  after(done: number): string;
  elapsedMs(): number;
}

export function createTimeLeft(total: number, now: () => number): TimeLeft {
  const begun = now();
  const elapsedMs = (): number => now() - begun;
  return {
    elapsedMs,
    after(done) {
      if (done === 0) return `${total} to do`;
      const ms = (elapsedMs() / done) * (total - done);
      return ms < 120_000 ? `about ${formatSeconds(ms)} left` : `about ${Math.round(ms / 60_000)} min left`;
    },
  };
}
