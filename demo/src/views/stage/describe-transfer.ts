/** A copy between P and D in one sentence, for screen readers. No DOM. */
import type { TransferView } from '../../session/types.ts';
import { ms, plural, rate } from '../format.ts';
import { movedMs } from '../measured.ts';
import { plainly } from '../plain-words.ts';
import { directionOf } from './direction.ts';

export function transferInWords(transfer: TransferView): string {
  const [reader, holder] = directionOf(transfer) === 'd_to_p' ? ['P', 'D'] : ['D', 'P'];
  const blocks = plural(transfer.pairs.length, 'block');
  if (transfer.endMs === null) return `${reader} is copying ${blocks} from ${holder}.`;
  const took = movedMs(transfer);
  if (transfer.outcome !== 'done')
    return `${reader} got nothing from ${holder}: ${plainly(transfer.message || (transfer.outcome ?? ''))}.`;
  const link = transfer.throttled ? ' over a modelled link' : '';
  return `${reader} copied ${blocks} from ${holder} in ${ms(took)}, ${rate(transfer.bytes, took)}${link}.`;
}
