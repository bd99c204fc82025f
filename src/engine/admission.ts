/** What an engine refuses at the door, each with one sentence, so that no admitted request can wait for ever. */
import type { EngineCoreConfig } from '../config/engine.ts';
import { RequestError } from '../errors.ts';
import type { EngineRequest } from './types.ts';

/** Throws RequestError. `numUsableBlocks`: blocks that one request can get at best. */
export function checkRequest(
  request: EngineRequest,
  config: EngineCoreConfig,
  numUsableBlocks: number,
): void {
  const { requestId, promptTokenIds, sampling } = request;
  const { maxModelLen } = config.scheduler;
  const { blockSize } = config.cache;
  const promptLength = promptTokenIds.length;
  const refuse = (found: string): never => {
    throw new RequestError(`request ${requestId}: ${found}`);
  };
  if (promptLength === 0) refuse('the prompt is empty: give at least one token');
  const badToken = promptTokenIds.find((id) => !Number.isInteger(id) || id < 0);
  if (badToken !== undefined) refuse(`the prompt holds ${badToken}, which is no token id`);
  if (!Number.isInteger(sampling.maxTokens) || sampling.maxTokens < 1) {
    refuse(`maxTokens is ${sampling.maxTokens}: ask for at least 1 token`);
  }
  if (!Number.isInteger(sampling.minTokens) || sampling.minTokens < 0) {
    refuse(`minTokens is ${sampling.minTokens}: give a whole number from 0 on`);
  }
  if (sampling.minTokens > sampling.maxTokens) {
    refuse(`minTokens ${sampling.minTokens} is more than maxTokens ${sampling.maxTokens}: lower it`);
  }
  if (promptLength + 1 > maxModelLen) {
    refuse(
      `the prompt has ${promptLength} tokens and the context ${maxModelLen}, which must hold one more: shorten the prompt`,
    );
  }
  // The last token generated never gets KV.
  const maxKvTokens = Math.min(promptLength + sampling.maxTokens, maxModelLen) - 1;
  const needed = Math.ceil(maxKvTokens / blockSize);
  if (needed > numUsableBlocks) {
    refuse(
      `${promptLength} prompt tokens and up to ${maxKvTokens + 1 - promptLength} more need ${needed} blocks of ${blockSize} tokens, ` +
        `the pool of ${config.engineId} has ${numUsableBlocks}: give it ${needed + 1} blocks or more, or ask for less`,
    );
  }
}
