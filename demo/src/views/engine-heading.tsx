/** What an engine is and how it is: over its blocks. */
import type { Role, SessionState } from '../session/types.ts';
import { plural } from './format.ts';

const NAMES: Record<Role, { letter: string; does: string }> = {
  prefill: { letter: 'P', does: 'prefill: reads the prompt' },
  decode: { letter: 'D', does: 'decode: writes the answer' },
};

export function EngineHeading({ state, engine: role }: { state: SessionState; engine: Role }) {
  const { letter, does } = NAMES[role];
  const engine = state.drawn[role].value;
  const stats = engine?.stats.value;
  const dead = engine?.alive.value === false;
  const idle = role === 'decode' && state.settings.value.mode === 'monolithic';
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
          ? (engine?.message.value ?? 'stopped')
          : idle
            ? 'not used: one engine does both'
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
