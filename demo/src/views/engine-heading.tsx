/** What an engine is and how it is: over its blocks. */
import type { Mode, Role, SessionState } from '../session/types.ts';
import { plural } from './format.ts';
import { plainly } from './plain-words.ts';

/** What an engine does in a mode. */
function doing(role: Role, mode: Mode): { letter: 'P' | 'D'; does: string } {
  if (role === 'prefill') {
    if (mode === 'monolithic') return { letter: 'P', does: 'not used: one engine does both' };
    if (mode === 'decode-local') return { letter: 'P', does: 'prefill: reads the first prompt only' };
    return { letter: 'P', does: 'prefill: reads the prompt' };
  }
  if (mode === 'monolithic') return { letter: 'D', does: 'reads the prompt and writes the answer' };
  if (mode === 'decode-local') return { letter: 'D', does: 'writes the answer, and reads from turn 2 on' };
  return { letter: 'D', does: 'decode: writes the answer' };
}

export function EngineHeading({ state, engine: role }: { state: SessionState; engine: Role }) {
  const { letter, does } = doing(role, state.settings.value.mode);
  const engine = state.drawn[role].value;
  const stats = engine?.stats.value;
  const dead = engine?.alive.value === false;
  return (
    <div class={`engine-heading is-${letter.toLowerCase()}`}>
      <h2>
        <span class="engine-letter" aria-hidden="true">
          {letter}
        </span>
        <span class="visually-hidden">{letter}, </span>
        <span class="engine-does">{does}</span>
      </h2>
      <p class="engine-figures">
        {dead
          ? plainly(engine?.message.value ?? 'stopped')
          : stats
            ? `${stats.usedBlocks} of ${plural(stats.usedBlocks + stats.freeBlocks, 'block')} in use`
            : 'starting'}
        {stats && stats.heldRequests > 0 && !dead
          ? `, holds for ${plural(stats.heldRequests, 'request')}`
          : ''}
      </p>
    </div>
  );
}
