/** Oracle runs that several tests use. */
import type { FixtureRun } from '../../src/model/oracle/fixture.ts';
import { argmax, type Oracle } from '../../src/model/oracle/oracle.ts';

/** Continues the oracle's sequence with greedy tokens up to an end token (included) or maxTokens. */
export function generateGreedy(
  oracle: Oracle,
  promptTokenIds: readonly number[],
  maxTokens: number,
  eosTokenIds: readonly number[] = [],
): number[] {
  const output: number[] = [];
  let next = promptTokenIds;
  while (output.length < maxTokens) {
    const token = argmax(oracle.forward(next)[0]!);
    output.push(token);
    if (eosTokenIds.includes(token)) break;
    next = [token];
  }
  return output;
}

/** The oracle's side of a fixture comparison; the oracle must be empty. */
export function oracleFixtureRun(oracle: Oracle, tokenIds: readonly number[]): FixtureRun {
  const logits = oracle.forward(tokenIds, { logits: 'all' });
  const layers = Array.from({ length: oracle.architecture.numLayers }, (_, layer) => layer);
  return {
    logits,
    keys: layers.map((layer) => concatenate(oracle.keys(layer))),
    values: layers.map((layer) => concatenate(oracle.values(layer))),
  };
}

function concatenate(parts: readonly Float64Array[]): Float64Array {
  const whole = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
