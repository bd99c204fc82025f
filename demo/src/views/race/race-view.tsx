/** The race: the conversation's next turn, with KV recomputed by P and with KV pulled back from D. */
import type { Race, RaceLane, Session } from '../../session/types.ts';
import { Button } from '../button.tsx';
import { bytes, ms, plural } from '../format.ts';
import { plainly } from '../plain-words.ts';
import { useNow } from '../use-frames.ts';
import { WithoutStore } from '../without-store.tsx';
import { StageBar, StageKey } from './stage-bar.tsx';
import { canRace, isOfConversation, runsEachWay, sameAnswer, verdictOf } from './verdict.ts';

export function RaceView({ session: { state, actions } }: { session: Session }) {
  const last = state.race.value;
  const race = last && isOfConversation(last, state.beganMs.value) ? last : null;
  const running =
    race !== null && race.error === null && !(race.pull.phase === 'done' && race.recompute.phase === 'done');
  const now = useNow(running, state.nowMs);
  const { phase } = state.status.value;
  const recorded = state.replay.value !== null;
  return (
    <section class="panel race" aria-label="The race">
      <div class="panel-head">
        <h2>Compute again, or pull back?</h2>
        {race && (
          <p class="race-question">
            <q>{race.question}</q>
            {race.historyTokens > 0 && ` after ${plural(race.historyTokens, 'token')} of history`}
          </p>
        )}
        {/* A recorded run has one race of each turn, served as everything else. */}
        {(!recorded || (race && runsEachWay(race) > 1)) && <WithoutStore state={state} />}
        {!recorded && (
          <Button
            class="primary"
            off={phase !== 'ready' || !canRace(race, state.turns.value)}
            onClick={() => void actions.runRace()}
          >
            {race && !running ? 'Race again' : running ? 'Racing…' : 'Race the next turn'}
          </Button>
        )}
      </div>
      {race ? (
        <Course race={race} nowMs={now.value} />
      ) : (
        <BeforeRace asked={state.turns.value.length > 0} recorded={recorded} />
      )}
    </section>
  );
}

function BeforeRace({ asked, recorded }: { asked: boolean; recorded: boolean }) {
  return (
    <p class="quiet-text">
      {recorded
        ? 'No race in the recording so far.'
        : asked
          ? 'Runs the same turn on the same history three times each way: P computes again what D generated, or pulls its blocks back. Timed to the first token.'
          : 'Needs a conversation with at least one answer: only what D generated is missing on P.'}
    </p>
  );
}

function Course({ race, nowMs }: { race: Race; nowMs: number }) {
  const timeOf = (lane: RaceLane): number =>
    lane.ttftMs ??
    (lane.phase === 'running' && lane.startedMs !== null ? Math.max(0, nowMs - lane.startedMs) : 0);
  const scaleMs = Math.max(timeOf(race.pull), timeOf(race.recompute), 1);
  const verdict = verdictOf(race);
  const same = sameAnswer(race);
  return (
    <>
      <div class="race-lanes">
        <Lane name="compute again" lane={race.recompute} timeMs={timeOf(race.recompute)} scaleMs={scaleMs} />
        <Lane name="pull back" lane={race.pull} timeMs={timeOf(race.pull)} scaleMs={scaleMs} />
      </div>
      <StageKey stagesMs={{ ...race.recompute.stagesMs, ...race.pull.stagesMs }} />
      {race.error ? (
        <p class="problem">{plainly(race.error)}</p>
      ) : (
        // Not a live region: the page's headline has the result too.
        <p class="race-verdict" data-winner={verdict?.winner}>
          {verdict?.sentence ?? ''}{' '}
          {same === null
            ? ''
            : same
              ? 'Both gave the same answer.'
              : 'The answers differ, so the KV was not the same.'}
        </p>
      )}
    </>
  );
}

const PHASES: Record<RaceLane['phase'], string> = {
  waiting: 'waiting',
  preparing: 'repeating the history',
  running: 'running',
  done: '',
};

function Lane({
  name,
  lane,
  timeMs,
  scaleMs,
}: {
  name: string;
  lane: RaceLane;
  timeMs: number;
  scaleMs: number;
}) {
  return (
    <div class="race-lane">
      <p class="race-name">
        <strong>{name}</strong>
        <span class="race-tokens">
          {lane.ttftMs !== null
            ? `${lane.computedTokens} computed, ${lane.pulledTokens} pulled${lane.bytesPulled > 0 ? ` (${bytes(lane.bytesPulled)})` : ''}`
            : PHASES[lane.phase]}
        </span>
        {(lane.runsMs?.length ?? 0) > 1 && (
          <span class="race-tokens">
            {lane.runsMs!.length} runs, {ms(Math.min(...lane.runsMs!))} to {ms(Math.max(...lane.runsMs!))}
          </span>
        )}
        <span class="race-time number">{timeMs > 0 ? ms(timeMs) : '–'}</span>
      </p>
      <StageBar stagesMs={lane.stagesMs} scaleMs={scaleMs} elapsedMs={timeMs} />
    </div>
  );
}
