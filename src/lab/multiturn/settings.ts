/** What a benchmark's settings come to. */
import { durationMs, shareOf } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { Auditor } from '../audit.ts';
import type { ServeOptions } from './rounds.ts';

export const budgetMs = (config: RunConfig): number | null =>
  config.budget === null ? null : durationMs(config.budget)!;

export const activeOf = (config: RunConfig): number => config.maxActiveConversations ?? config.numClients;

export function serveOptions(
  config: RunConfig,
  { now, sleep }: Pick<ServeOptions, 'now' | 'sleep'>,
): ServeOptions {
  return {
    numClients: config.numClients,
    maxActive: activeOf(config),
    maxRequests: config.maxNumRequests,
    maxTurns: config.maxTurns,
    requestRate: config.requestRate,
    pick: config.conversationSampling,
    warmupStep: config.warmupStep,
    earlyStop: config.earlyStop,
    auditor: shareOf(config.audit) > 0 ? new Auditor(shareOf(config.audit)) : null,
    limitTokens: { min: config.limitMinTokens, max: config.limitMaxTokens },
    seed: config.seed,
    now,
    sleep,
  };
}
