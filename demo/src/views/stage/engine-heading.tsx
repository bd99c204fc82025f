/** The heading over an engine's blocks: its task, its state, and its buttons. */
import type { Mode, Role, Session } from '../../session/types.ts';
import { Button } from '../button.tsx';
import { plural } from '../format.ts';
import { plainly } from '../plain-words.ts';
import { buttonLabel } from './describe-block.ts';

/** An engine's task in a mode. */
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

export function EngineHeading({
  session: { state, actions },
  engine: role,
}: {
  session: Session;
  engine: Role;
}) {
  const { letter, does } = doing(role, state.settings.value.mode);
  const engine = state.drawn[role].value;
  const stats = engine?.stats.value;
  // Blocks that are still arriving do not count as used.
  const coming = engine?.blocks.value.filter((block) => block.state === 'arriving').length ?? 0;
  const dead = engine?.alive.value === false;
  return (
    <div class={`engine-heading is-${letter.toLowerCase()}`}>
      <h2>
        <span class="engine-letter" aria-hidden="true">
          {letter}
        </span>
        <span class="visually-hidden">{letter}, </span>
        <span class="engine-does">{does}</span>
        <Others session={{ state, actions }} engine={role} />
      </h2>
      <p class="engine-figures">
        {dead
          ? `${plainly(engine?.message.value ?? 'stopped').replace(/\.$/, '')}${state.status.value.phase === 'ready' ? '; the next question restarts it' : ''}`
          : stats
            ? `${Math.max(0, stats.usedBlocks - coming)} of ${stats.usedBlocks + stats.freeBlocks} blocks used`
            : state.status.value.phase === 'failed'
              ? 'not running'
              : state.replay.value
                ? 'not started yet'
                : 'starting'}
        {stats && stats.heldRequests > 0 && !dead ? `, ${plural(stats.heldRequests, 'hold')}` : ''}
      </p>
      {state.replay.value === null && <Breakage session={{ state, actions }} engine={role} />}
    </div>
  );
}

/** Buttons that break an engine on purpose. The conversation survives, and the next turn shows what it cost. */
function Breakage({ session: { state, actions }, engine: role }: { session: Session; engine: Role }) {
  const { phase } = state.status.value;
  const engine = state.drawn[role].value;
  const off = phase === 'starting' || phase === 'failed' || !engine?.alive.value;
  const name = role === 'prefill' ? 'P' : 'D';
  const dead = engine?.alive.value === false && phase === 'ready';
  return (
    <div class="engine-buttons">
      {!dead && role === 'prefill' && (
        <Button off={off} onClick={() => void actions.evictPrefill()}>
          Empty P's cache
        </Button>
      )}
      {!dead && role === 'decode' && (
        <Button off={off || !engine?.stats.value?.heldRequests} onClick={() => void actions.expireHold()}>
          Let D's hold run out
        </Button>
      )}
      {/* One button, which keeps the focus. */}
      <Button
        class={dead ? 'primary' : undefined}
        off={off && !dead}
        inPlace={dead}
        title={
          dead
            ? undefined
            : 'Stops the engine without telling the other one, which notices it as it would notice a crash'
        }
        onClick={() => void (dead ? actions.revive() : actions.kill(role))}
      >
        {dead ? 'Restart' : 'Kill'} {name}
      </Button>
    </div>
  );
}

/** Chooses the drawn engine, if a role has several. */
function Others({ session: { state, actions }, engine: role }: { session: Session; engine: Role }) {
  const all = [...state.engines.value.values()].filter(
    (engine) => engine.role === role && engine.alive.value,
  );
  if (all.length < 2) return null;
  return (
    <span class="engine-others">
      {all.map(({ engineId, stats }) => (
        <button
          type="button"
          key={engineId}
          aria-pressed={engineId === state.drawn[role].value?.engineId}
          title={`${engineId}: ${plural(stats.value?.usedBlocks ?? 0, 'block')} in use`}
          onClick={() => actions.look(role, engineId)}
        >
          {buttonLabel(engineId)}
        </button>
      ))}
    </span>
  );
}
