/** Shapes of the steps that are measured. */
import { tokenContext } from '../../connector/policy/cost-model.ts';
import { type StepShape, shapeOf } from './types.ts';

/** The steps of a prompt whose first `found` tokens have KV, as the scheduler cuts it. */
export function prefillSteps(tokens: number, maxNumBatchedTokens: number, found = 0): StepShape[] {
  const steps: StepShape[] = [];
  for (let start = found; start < tokens; start += maxNumBatchedTokens) {
    const length = Math.min(maxNumBatchedTokens, tokens - start);
    const request = { startPosition: start, tokenIds: Array.from({ length }, () => 0) };
    steps.push(shapeOf({ step: 0, requests: [{ ...request, requestId: '', blockIds: [], sample: null }] }));
  }
  return steps;
}

export const decodeShape = (count: number, context: number): StepShape => {
  return { decodes: count, decodeContext: count * context, prefills: 0, prefillTokens: 0, prefillContext: 0 };
};

/** `context`: tokens before the row of each decoding request. */
export const mixedShape = (decodes: number, context: number, prefillTokens: number): StepShape => {
  const prefillContext = tokenContext(0, prefillTokens);
  return { decodes, decodeContext: decodes * context, prefills: 1, prefillTokens, prefillContext };
};
