/**
 * The rule of shaders/sample.wgsl in float64. Used for rows that are sampled on the host (isOnHost), and as the
 * reference for the kernel.
 */
import { type SampleRequest, uniformDraw } from './sampling.ts';

/**
 * `logits`: [vocab_size]. If every allowed token is forbidden, the forbidden ones become candidates. Returns null if
 * all allowed logits are NaN.
 */
export function sampleOnHost(logits: Float32Array, request: SampleRequest): number | null {
  const { params, outputIndex, forbiddenTokenIds } = request;
  const forbidden = new Set(forbiddenTokenIds);
  const allowed = [...new Set(params.allowedTokenIds ?? logits.keys())].filter(
    (id) => !Number.isNaN(logits[id]),
  );
  const left = allowed.filter((id) => !forbidden.has(id));
  const candidates = left.length > 0 ? left : allowed;
  if (candidates.length === 0) return null;
  return chosenToken(logits, candidates, params, uniformDraw(params.seed, outputIndex));
}

/** `candidates`: at least one token id. `draw`: in [0, 1). */
export function chosenToken(
  logits: Float32Array,
  candidates: readonly number[],
  { temperature, topK, topP }: Pick<SampleRequest['params'], 'temperature' | 'topK' | 'topP'>,
  draw: number,
): number {
  const best = [...candidates].sort((a, b) => logits[b]! - logits[a]! || a - b);
  const highest = logits[best[0]!]!;
  if (temperature === 0) return best[0]!;
  const weight = (id: number): number => Math.exp((logits[id]! - highest) / temperature);
  const total = (ids: readonly number[]): number => ids.reduce((sum, id) => sum + weight(id), 0);
  const atLeast = (ids: readonly number[], last: number): number[] =>
    ids.filter((id) => logits[id]! >= logits[last]!);
  let kept = topK > 0 ? atLeast(best, best[Math.min(topK, best.length) - 1]!) : best;
  if (topP < 1) {
    const wanted = topP * total(kept);
    let sum = 0;
    const last = kept.find((id) => {
      sum += weight(id);
      return sum >= wanted;
    });
    kept = atLeast(kept, last ?? kept.at(-1)!);
  }
  const target = draw * total(kept);
  let sum = 0;
  const byId = [...kept].sort((a, b) => a - b);
  const chosen = byId.find((id) => {
    sum += weight(id);
    return sum > target;
  });
  return chosen ?? byId.at(-1)!;
}
