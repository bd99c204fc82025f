/** Audits pull decisions: serves a sample of turns again the other way, from the same state, and measures the regret. */
import { InternalError } from '../errors.ts';
import type { Cluster } from '../fleet/types.ts';
import type { TurnAudit } from '../measure/schemas/report.ts';
import type { GenerateRequest, TurnResult } from '../router/turn-types.ts';

/** Samples turns evenly among those with something to pull, beginning with the first. */
export class Auditor {
  readonly #share: number;
  #eligible = 0;
  #audited = 0;

  /** `share`: of the eligible turns, from 0 to 1. */
  constructor(share: number) {
    this.#share = share;
  }

  /** Whether to audit this turn. Call once per turn: it counts. */
  wants({ prompt }: TurnResult): boolean {
    const decided = prompt.pulledTokens > 0 || prompt.noPull?.by === 'policy';
    if (this.#share === 0 || !decided) return false;
    const due = this.#audited <= Math.floor(this.#eligible++ * this.#share);
    if (due) this.#audited++;
    return due;
  }

  /**
   * Serves the turn that was just served once more, the other way. The conversation continues from there: both ways leave the
   * same state. Throws InternalError if the tokens differ.
   */
  async audit(cluster: Cluster, request: GenerateRequest, served: TurnResult): Promise<TurnAudit> {
    await cluster.rewind(served.conversationId);
    const chose = served.prompt.pulledTokens > 0 ? 'pull' : 'recompute';
    let other: TurnResult | null = null;
    for await (const { final } of cluster.generate({
      ...request,
      pull: chose === 'pull' ? 'never' : 'always',
    }))
      if (final) other = final;
    if (!other)
      throw new InternalError(`the audit of a turn of ${served.conversationId} ended without a result`);
    const same = [...other.outputTokenIds].join() === [...served.outputTokenIds].join();
    if (!same) {
      throw new InternalError(
        `turn ${served.turn} of ${served.conversationId} gave different tokens when pulled and when computed: KV is damaged`,
      );
    }
    return {
      chose,
      chosen_ttft_ms: served.ttftMs,
      other_ttft_ms: other.ttftMs,
      regret_ms: Math.max(0, served.ttftMs - other.ttftMs),
    };
  }
}
