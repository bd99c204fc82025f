/** A copy between P and D in one sentence, for screen readers. No DOM. */
import type { TransferView } from '../../session/types.ts';
import { plural } from '../format.ts';
import { movedMs, timeAndRate } from '../measured.ts';
import { plainly } from '../plain-words.ts';
import { directionOf } from './direction.ts';

export function transferInWords(transfer: TransferView): string {
  const [reader, holder] = directionOf(transfer) === 'd_to_p' ? ['P', 'D'] : ['D', 'P'];
  const blocks = plural(transfer.pairs.length, 'block');
  if (transfer.endMs === null) return `${reader} is copying ${blocks} from ${holder}.`;
  if (transfer.outcome !== 'done')
    return `${reader} got nothing from ${holder}: ${plainly(transfer.message || (transfer.outcome ?? ''))}.`;
  return `${reader} copied ${blocks} from ${holder} in ${timeAndRate(movedMs(transfer), transfer.bytes, transfer.throttled)}.`;
}
