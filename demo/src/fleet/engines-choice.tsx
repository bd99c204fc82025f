/** Chooses between a simulated fleet and real engines. */
import { Button } from '../views/button.tsx';
import type { Fleet } from './fleet.ts';
import { REAL_MODEL, REAL_MOST } from './settings.ts';

const CHOICES = [
  ['simulated', 'simulated'],
  ['real', 'real'],
] as const;

export function EnginesChoice({ fleet }: { fleet: Fleet }) {
  const { engines } = fleet.settings.value;
  const missing = fleet.missing.value;
  return (
    <div class="fleet-kind">
      <fieldset class="segments" aria-describedby="fleet-kind-help">
        <legend class="visually-hidden">Engines</legend>
        {CHOICES.map(([kind, name]) => (
          <Button
            key={kind}
            aria-pressed={engines === kind}
            off={kind === 'real' && missing !== null && engines !== 'real'}
            onClick={() => engines !== kind && fleet.set({ engines: kind })}
          >
            {name}
          </Button>
        ))}
      </fieldset>
      <p class="field-help" id="fleet-kind-help">
        {missing === null
          ? `Real engines: up to ${REAL_MOST.prefill} P and ${REAL_MOST.decode} D with ${REAL_MODEL}, on this computer.`
          : `Real engines cannot run here. ${missing}`}
      </p>
    </div>
  );
}
