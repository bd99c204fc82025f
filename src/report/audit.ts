/** Audits as sentences and tables. */

import { formatMs, plural } from '../measure/format.ts';
import { TIE } from '../measure/outcome.ts';
import type { BenchAudit } from '../measure/schemas/bench-report.ts';
import type { TurnAudit } from '../measure/schemas/report.ts';
import { type AuditTotals, auditOutcome } from '../measure/summaries/audit.ts';
import { type Cell, left, type TablePiece, TONE_OF, under } from './document.ts';

/** An audit's totals in a sentence. */
export function auditSentence(totals: AuditTotals, policy: string): string {
  const { turns, slowerChoices, regretMs, betterTtftMs } = totals;
  const share = betterTtftMs > 0 ? (100 * regretMs) / betterTtftMs : 0;
  return (
    `Audit: ${plural(turns, 'turn')} served both ways; ${policy} chose the slower way in ${slowerChoices} and lost ` +
    `${regretMs.toFixed(1)} ms against the better choices (${share.toFixed(1)}% of their TTFT).`
  );
}

/** The audit of a benchmark, which has its own rounds. */
export function benchAuditSentence({ turns, slower_choices, regret_ms, better_ttft_ms }: BenchAudit): string {
  if (turns.length === 0) return 'Audit: no turn had anything to pull, so there was nothing to decide.';
  const totals = {
    turns: turns.length,
    slowerChoices: slower_choices,
    regretMs: regret_ms,
    betterTtftMs: better_ttft_ms,
  };
  return `${auditSentence(totals, 'cost-aware')} It ran in separate rounds, which do not count in the times above.`;
}

export const auditTable = (
  turns: readonly (TurnAudit & { conversation_id: string; turn: number })[],
): TablePiece => ({
  kind: 'table',
  title: 'Turns served both ways',
  folded: true,
  columns: [left('turn'), left('chose'), ...under('TTFT, ms', 'chosen', 'other way'), { head: 'lost, ms' }],
  rows: turns.map((audit): Cell[] => {
    const found = auditOutcome(audit);
    return [
      `${audit.conversation_id}, ${audit.turn}`,
      audit.chose,
      formatMs(audit.chosen_ttft_ms),
      formatMs(audit.other_ttft_ms),
      {
        text: found === 'tie' ? TIE : formatMs(audit.regret_ms),
        tone: TONE_OF[found],
      },
    ];
  }),
});
