/** What all of this ran on, and how long drawing took. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Session } from '../session/types.ts';
import { bytes, ms, plural } from './format.ts';
import { drawing } from './frame-meter.ts';

const LOOK_MS = 2000;

export function Foot({ session: { state } }: { session: Session }) {
  const slowest = useSignal<number | null>(null);
  useEffect(() => {
    const timer = setInterval(() => {
      const means = Object.values(drawing.times()).map(({ meanMs }) => meanMs);
      slowest.value = means.length > 0 ? means.reduce((sum, mean) => sum + mean, 0) : null;
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [slowest]);
  const machine = state.machine.value;
  return (
    <footer class="foot">
      {machine && (
        <p>
          {machine.model.name}: {plural(machine.model.parameters, 'parameter')},{' '}
          {bytes(machine.model.kvBytesPerToken)} of KV a token, blocks of {machine.blockSize} tokens (
          {bytes(machine.model.blockBytes)}). Runs on {machine.adapter.name}
          {machine.adapter.software ? ', a CPU that plays the GPU' : ''}. P and D share it and compete for it.
        </p>
      )}
      {slowest.value !== null && <p>Drawing takes {ms(slowest.value)} a frame.</p>}
    </footer>
  );
}
