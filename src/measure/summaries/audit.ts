/** Totals of audits: turns served both ways, and what the policy's choices lost. */

import { sumOf } from '../../sum.ts';
import { outcomeOf } from '../outcome.ts';
import type { TurnAudit } from '../schemas/report.ts';

export interface AuditTotals {
  turns: number;
  /** Turns for which the slower way was chosen. */
  slowerChoices: number;
  /** TTFT lost by choices, milliseconds. */
  regretMs: number;
  /** Sum of the TTFT of the better choices, milliseconds. */
  betterTtftMs: number;
}

export const auditOutcome = ({ chosen_ttft_ms, other_ttft_ms }: TurnAudit) =>
  outcomeOf({ ratio: other_ttft_ms / chosen_ttft_ms });

export function auditTotals(audits: readonly TurnAudit[]): AuditTotals {
  const sum = (value: (audit: TurnAudit) => number): number => sumOf(audits, value);
  return {
    turns: audits.length,
    slowerChoices: audits.filter((audit) => auditOutcome(audit) === 'behind').length,
    regretMs: sum((a) => a.regret_ms),
    betterTtftMs: sum((a) => Math.min(a.chosen_ttft_ms, a.other_ttft_ms)),
  };
}
