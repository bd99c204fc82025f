/** How long the rest of equal steps will take, from how long those that are over took. */
import { formatSeconds } from './format.ts';

export interface TimeLeft {
  /** 'about 12 s left', or how far it is while nothing can be said. */
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
