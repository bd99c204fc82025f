/** Announces each finished copy of the conversation to screen readers, and not the many of a measurement. */
import { isConversation } from '../../session/conversation/conversation.ts';
import type { SessionState } from '../../session/types.ts';
import { transferInWords } from './describe-transfer.ts';

export function TransferNews({ state }: { state: SessionState }) {
  const last = state.transfers.value.findLast(
    ({ requestId, endMs, pairs }) =>
      endMs !== null && pairs.length > 0 && isConversation({ conversation: requestId }),
  );
  return (
    <p class="visually-hidden" aria-live="polite">
      {last ? transferInWords(last) : ''}
    </p>
  );
}
