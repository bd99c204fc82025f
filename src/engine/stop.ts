/** When a request stops, and which tokens it may not end with yet. vLLM's check_stop and min_tokens. */
import type { Request } from './request.ts';

/** After an output token was appended. Lengths stop a request whatever minTokens says. */
export function stopStatus(
  request: Request,
  eosTokenIds: readonly number[],
  maxModelLen: number,
): 'finished_stopped' | 'finished_length_capped' | null {
  const { sampling } = request;
  const last = request.allTokenIds[request.numTokens - 1]!;
  if (request.numOutputTokens >= sampling.minTokens) {
    const atEos = !sampling.ignoreEos && eosTokenIds.includes(last);
    if (atEos || sampling.stopTokenIds.includes(last)) return 'finished_stopped';
  }
  const atLength = request.numTokens >= maxModelLen || request.numOutputTokens >= sampling.maxTokens;
  return atLength ? 'finished_length_capped' : null;
}

/** Tokens that must not be drawn next. */
export function forbiddenTokenIds(request: Request, eosTokenIds: readonly number[]): readonly number[] {
  if (request.numOutputTokens >= request.sampling.minTokens) return [];
  return [...new Set([...eosTokenIds, ...request.sampling.stopTokenIds])];
}
