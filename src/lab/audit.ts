/** An audit: a sample of turns is served a second time the other way, from the same state, to tell what the choice lost. */
import { InternalError } from '../errors.ts';
import type { Cluster } from '../fleet/types.ts';
import type { TurnAudit } from '../measure/report.ts';
import type { GenerateRequest, TurnResult } from '../router/turn-types.ts';

/** Picks turns evenly: the first that has something to pull, and from then on so many of all. */
export class Auditor {
  readonly #share: number;
  #eligible = 0;
  #audited = 0;

  /** From 0 to 1. */
  constructor(share: number) {
    this.#share = share;
  }

  /** Whether this turn is audited; counts it. */
  wants({ prompt }: TurnResult): boolean {
    const decided = prompt.pulledTokens > 0 || prompt.noPull?.by === 'policy';
    if (this.#share === 0 || !decided) return false;
    const due = this.#audited <= Math.floor(this.#eligible++ * this.#share);
    if (due) this.#audited++;
    return due;
  }

  /** The turn has just been served: serves it the other way, and goes on from there, for both leave the same behind. */
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
        `turn ${served.turn} of ${served.conversationId} gave other tokens pulled than computed: KV is damaged`,
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
