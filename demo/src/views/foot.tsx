/** The page's footer: the model, the device, and the drawing time. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Session } from '../session/types.ts';
import { bytes, ms, plural } from './format.ts';
import { drawing } from './frame-meter.ts';

const LOOK_MS = 2000;

export function Foot({ session: { state } }: { session: Session }) {
  const usual = useSignal(drawing.usualFrame());
  useEffect(() => {
    const timer = setInterval(() => {
      usual.value = drawing.usualFrame();
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [usual]);
  const machine = state.machine.value;
  const recorded = state.replay.value !== null;
  return (
    <footer class="foot">
      {machine && (
        <p>
          {machine.model.name}: {plural(machine.model.parameters, 'parameter')},{' '}
          {bytes(machine.model.kvBytesPerToken)} of KV per token, blocks of {machine.blockSize} tokens (
          {bytes(machine.model.blockBytes)}). {recorded ? 'Ran' : 'Runs'} on {machine.adapter.name}
          {machine.adapter.software ? ', a CPU that emulates a GPU' : ''}. P and D{' '}
          {recorded ? 'shared it and competed' : 'share it and compete'} for it.
        </p>
      )}
      {usual.value && (
        <p>
          Drawing takes {ms(usual.value.ms)} per frame (median of the last {usual.value.frames}).
        </p>
      )}
    </footer>
  );
}
