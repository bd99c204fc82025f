/** Announces each finished copy once to screen readers. */
import type { SessionState, TransferView } from '../../session/types.ts';
import { ms, plural, rate } from '../format.ts';
import { movedMs } from '../measured.ts';
import { plainly } from '../plain-words.ts';
import { directionOf } from './direction.ts';

function transferInWords(transfer: TransferView): string {
  const [reader, holder] = directionOf(transfer) === 'd_to_p' ? ['P', 'D'] : ['D', 'P'];
  const blocks = plural(transfer.pairs.length, 'block');
  if (transfer.endMs === null) return `${reader} is copying ${blocks} from ${holder}.`;
  const took = movedMs(transfer);
  if (transfer.outcome !== 'done')
    return `${reader} got nothing from ${holder}: ${plainly(transfer.message || (transfer.outcome ?? ''))}.`;
  return `${reader} copied ${blocks} from ${holder} in ${ms(took)}, ${rate(transfer.bytes, took)}.`;
}

export function TransferNews({ state }: { state: SessionState }) {
  const last = state.transfers.value.findLast(({ endMs, pairs }) => endMs !== null && pairs.length > 0);
  return (
    <p class="visually-hidden" aria-live="polite">
      {last ? transferInWords(last) : ''}
    </p>
  );
}
