/** A benchmark's progress on stderr, with the estimated time left. */
import { type ExperimentPlan, linkInWords } from '../../lab/multiturn/experiments.ts';
import type { SessionWatcher } from '../../lab/multiturn/session.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { sum, sumOf } from '../../sum.ts';
import type { Progress } from '../output/progress.ts';

/** Progress of a session. A round runs every arm of every experiment once. */
export function watchSession(
  progress: Progress,
  experiments: readonly ExperimentPlan[],
  now: () => number,
): SessionWatcher {
  const armsARound = sumOf(experiments, ({ arms }) => arms.length);
  let endsAtMs: number | null = null;
  let rounds = 0;
  let requests = 0;
  let done = 0;
  const left = (): string => (endsAtMs === null ? '' : `about ${timeLeft(endsAtMs - now())} left`);
  return {
    trying: (conversations, turns) =>
      progress.line(
        `trying ${plural(conversations, 'conversation')}, ${plural(turns, 'turn')} each, to estimate what fits`,
      ),
    tried: ({ tookMs, cost, fitting, all, roundMs }) =>
      progress.line(
        `tried in ${formatSeconds(tookMs)}: about ${cost.prefillMsPerToken.toFixed(2)} ms per prompt token, ` +
          `${cost.decodeMsPerToken.toFixed(1)} ms per generated token; ${fitting} of ${plural(all, 'conversation')}, ` +
          `about ${formatSeconds(roundMs)} per round`,
      ),
    planned(planned, roundMs) {
      const doneRounds = Math.floor(done / armsARound);
      rounds = Math.max(planned, doneRounds);
      endsAtMs = roundMs === null ? null : now() + (rounds - doneRounds) * roundMs;
    },
    armBegins(experiment, arm, round, count) {
      requests = 0;
      progress.begin(`${round}/${rounds || '?'} ${arm.label}`, count);
      progress.update(0, [experiment.title, left()].filter(Boolean).join('; '));
    },
    requestDone() {
      progress.update(++requests, [`${plural(requests, 'request')}`, left()].filter(Boolean).join(', '));
    },
    armEnds(experiment, arm, { round, runtimeMs, requests: served, errors }) {
      done++;
      progress.end();
      const failed = sum(errors.values());
      const { name, link } = experiment;
      const where = link === undefined ? name : `${name}, ${linkInWords(link)}`;
      progress.line(
        `round ${round}${rounds ? ` of ${rounds}` : ''}, ${where}, ${arm.label}: ${plural(served.length, 'request')} in ${formatSeconds(runtimeMs)}` +
          `${failed > 0 ? `, ${failed} failed` : ''}${left() ? `; ${left()}` : ''}`,
      );
    },
  };
}

function timeLeft(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
