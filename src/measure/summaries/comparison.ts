/**
 * Whether the modes agree bit for bit, and what one gains over the other. Equal tokens alone prove little, so the digests
 * of the logits behind each token are compared as well.
 */
import { keepsKv } from '../../config/store.ts';
import type { Comparison, Disagreement, Report, RunReport, Summary, TurnReport } from '../schemas/report.ts';
import { turnKey } from '../spans/turn-key.ts';

/**
 * null for fewer than two runs. `logitDifference` is LogitKeeper's. `withGains`: false if runs cannot be compared in time and
 * work.
 */
export function compareRuns(
  runs: readonly RunReport[],
  logitDifference: number | null,
  withGains = true,
): Comparison | null {
  const [reference, ...others] = runs;
  if (!reference || others.length === 0) return null;
  const differences = others.flatMap((run) => differencesOf(reference, run));
  const logitsIdentical = differences.length === 0;
  return {
    tokens_identical: differences.every(({ what }) => what === 'logits'),
    logits_identical: logitsIdentical,
    compared_tokens: reference.summary.output_tokens,
    max_logit_difference: logitsIdentical ? 0 : logitDifference,
    first_disagreement: differences[0] ?? null,
    ...(withGains ? gains(runs) : NO_GAINS),
  };
}

/** At most one difference of each kind per turn, with turns in the reference's order. */
function differencesOf(reference: RunReport, run: RunReport): Disagreement[] {
  const others = new Map(run.turns.map((turn) => [turnKey(turn), turn]));
  const found: Disagreement[] = [];
  const note = (turn: TurnReport, index: number, what: Disagreement['what']): void => {
    found.push({
      mode: run.mode,
      reference: reference.mode,
      conversation_id: turn.conversation_id,
      turn: turn.turn,
      token_index: index,
      what,
    });
  };
  for (const turn of reference.turns) {
    const other = others.get(turnKey(turn));
    others.delete(turnKey(turn));
    if (!other) {
      note(turn, 0, 'length');
      continue;
    }
    const first = firstDifference(turn, other);
    if (first) note(turn, first.index, first.what);
    if (first?.what === 'logits') {
      const token = firstDifference({ ...turn, logits_digests: [] }, { ...other, logits_digests: [] });
      if (token) note(turn, token.index, token.what);
    }
  }
  for (const extra of others.values()) note(extra, 0, 'length');
  return found;
}

function firstDifference(a: TurnReport, b: TurnReport): { index: number; what: Disagreement['what'] } | null {
  const shared = Math.min(a.output_token_ids.length, b.output_token_ids.length);
  for (let index = 0; index < shared; index++) {
    if (a.output_token_ids[index] !== b.output_token_ids[index]) return { index, what: 'token' };
    if (a.logits_digests[index] !== b.logits_digests[index]) return { index, what: 'logits' };
  }
  return a.output_token_ids.length === b.output_token_ids.length ? null : { index: shared, what: 'length' };
}

/** Whether a later mode may have loaded KV that an earlier one had saved to the store's folder or server. */
export function loadedKeptKv({ config, runs }: Pick<Report, 'config' | 'runs'>): boolean {
  return keepsKv(config) && runs.slice(1).some(({ summary }) => (summary.bytes_from_store ?? 0) > 0);
}

type Gains = 'ttft_speedup' | 'ttft_ms' | 'ttft_later_turns_ms' | 'computed_tokens_saved';

const NO_GAINS: Pick<Comparison, Gains> = {
  ttft_speedup: null,
  ttft_ms: null,
  ttft_later_turns_ms: null,
  computed_tokens_saved: null,
};

function gains(runs: readonly RunReport[]): Pick<Comparison, Gains> {
  const without = runs.find(({ mode }) => mode === 'unidirectional')?.summary;
  const pulling = runs.find(({ mode }) => mode === 'bidirectional')?.summary;
  if (!without || !pulling) return NO_GAINS;
  const before = without.ttft_later_turns_ms;
  const after = pulling.ttft_later_turns_ms;
  return {
    ttft_speedup:
      before && after && after.mean > 0 && after.p50 > 0
        ? { mean: before.mean / after.mean, p50: before.p50 / after.p50 }
        : null,
    ttft_ms: gain(without.ttft_ms, pulling.ttft_ms),
    ttft_later_turns_ms: gain(before, after),
    computed_tokens_saved: without.computed_tokens - pulling.computed_tokens,
  };
}

function gain(reference: Summary | null, candidate: Summary | null): Comparison['ttft_ms'] {
  if (!reference || !candidate) return null;
  const of = (name: 'mean' | 'p50') => ({
    reference: reference[name],
    candidate: candidate[name],
    ratio: candidate[name] > 0 ? reference[name] / candidate[name] : null,
  });
  return { mean: of('mean'), p50: of('p50') };
}

/**
 * Keeps the first mode's logits and compares the other modes' with them. Compares a conversation up to the first token that
 * differs, because what follows answers a different text.
 */
export class LogitKeeper {
  readonly #rows = new Map<string, { tokenId: number; logits: Float32Array }>();
  readonly #parted = new Set<string>();
  #reference: string | null = null;
  #difference: number | null = null;

  /** Call in the order of tokens. */
  add(
    mode: string,
    conversationId: string,
    turn: number,
    index: number,
    tokenId: number,
    logits: Float32Array,
  ): void {
    this.#reference ??= mode;
    const key = JSON.stringify([conversationId, turn, index]);
    if (mode === this.#reference) {
      this.#rows.set(key, { tokenId, logits });
      return;
    }
    const strand = JSON.stringify([mode, conversationId]);
    const row = this.#rows.get(key);
    if (!row || this.#parted.has(strand)) return;
    this.#difference = Math.max(this.#difference ?? 0, maxDifference(row.logits, logits));
    if (row.tokenId !== tokenId) this.#parted.add(strand);
  }

  /** Largest absolute difference of two logits; NaN against a number counts as the largest number. null if nothing was compared. */
  get maxDifference(): number | null {
    return this.#difference;
  }
}

function maxDifference(a: Float32Array, b: Float32Array): number {
  let max = a.length === b.length ? 0 : Number.MAX_VALUE;
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (Object.is(a[i], b[i])) continue;
    const difference = Math.abs(a[i]! - b[i]!);
    max = Math.max(max, Number.isNaN(difference) ? Number.MAX_VALUE : difference);
  }
  return max;
}
