/**
 * The first minute: after the first turns were played, the page races the next one, so that a newcomer sees what pulling
 * saved. This happens once, and only if the user did nothing: an address with settings of engines or turns, a lesson or a
 * question stops it.
 */
import { effect } from '@preact/signals';
import { isConversation } from '../session/conversation/conversation.ts';
import { defaultSettings } from '../session/settings.ts';
import { fleetShown } from '../session/shown.ts';
import type { Session, SessionState } from '../session/types.ts';

/** Time to read the headline of the last turn. */
const READING_MS = 3500;

/** What shows that the user does something; scrolling is reading. */
const TAKES_OVER = ['click', 'keydown', 'input', 'hashchange'];

export function watchOpening({ state, actions }: Session): void {
  if (!isPlain(location.hash)) return;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  const stop = effect(() => {
    const is = stageOf(state);
    clearTimeout(waiting);
    if (is === 'over') queueMicrotask(() => stop());
    if (is !== 'played') return;
    waiting = setTimeout(() => {
      stop();
      void actions.runRace();
    }, READING_MS);
  });
  const end = () => {
    clearTimeout(waiting);
    stop();
  };
  for (const kind of TAKES_OVER) addEventListener(kind, end, { once: true });
}

/** Settings that change only how the page is shown. */
const OF_THE_VIEW = ['projector', 'speed'];

/** Whether an address asks for nothing else than the page as it opens. */
export const isPlain = (hash: string): boolean =>
  [...new URLSearchParams(hash.slice(1)).keys()].every((key) => OF_THE_VIEW.includes(key));

/** playing: wait. played: the race can begin. over: the user took over, or there is nothing to race. */
export function stageOf(state: SessionState): 'playing' | 'played' | 'over' {
  const { lesson, mode, turns: wanted, model } = state.settings.value;
  const { phase } = state.status.value;
  const turns = state.turns.value.filter(isConversation);
  if (lesson !== null || mode !== 'bidirectional' || model !== defaultSettings.model) return 'over';
  if (fleetShown.value || state.replay.value !== null || phase === 'failed' || phase === 'recorded')
    return 'over';
  if (state.race.value !== null || turns.length > wanted || turns.some(({ error }) => error)) return 'over';
  const ended = turns.filter(({ result }) => result !== null);
  return phase === 'ready' && !state.playing.value && ended.length === wanted && wanted > 1
    ? 'played'
    : 'playing';
}
