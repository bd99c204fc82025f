/** Log probabilities of sampled tokens, from the raw logits: before temperature, top-k and top-p, as in vLLM by default. */

export interface TokenLogprob {
  tokenId: number;
  /** Natural logarithm. */
  logprob: number;
}

export interface PieceLogprobs extends TokenLogprob {
  /** The last output tokens before this position, as many as tokenShown() looks at. */
  before: readonly number[];
  /** Most likely first. */
  top: readonly TokenLogprob[];
}

/** `logits`: [vocab_size]. `top`: how many of the most likely tokens to return. */
export function logprobsOf(
  logits: Float32Array,
  tokenId: number,
  top: number,
  before: readonly number[],
): PieceLogprobs {
  let most = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > most) most = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  const logSum = most + Math.log(sum);
  const of = (id: number): TokenLogprob => ({ tokenId: id, logprob: logits[id]! - logSum });
  return { ...of(tokenId), before, top: likeliest(logits, top).map(of) };
}

/** Ids of the `count` largest logits, largest first; of equal ones, the lower id first. */
function likeliest(logits: Float32Array, count: number): number[] {
  const best: number[] = [];
  for (let id = 0; id < logits.length && count > 0; id++) {
    if (best.length === count && logits[best[count - 1]!]! >= logits[id]!) continue;
    let at = best.length;
    while (at > 0 && logits[best[at - 1]!]! < logits[id]!) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  return best;
}
