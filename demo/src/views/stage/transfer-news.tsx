/** Announces each finished copy once to screen readers. */
import type { SessionState } from '../../session/types.ts';
import { transferInWords } from './describe-transfer.ts';

export function TransferNews({ state }: { state: SessionState }) {
  const last = state.transfers.value.findLast(({ endMs, pairs }) => endMs !== null && pairs.length > 0);
  return (
    <p class="visually-hidden" aria-live="polite">
      {last ? transferInWords(last) : ''}
    </p>
  );
}
