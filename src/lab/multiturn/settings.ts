/** Derives a benchmark's options from the configuration. */
import { durationMs, shareOf } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { Auditor } from '../audit.ts';
import { turnsOf } from './clients.ts';
import type { ServeOptions } from './rounds.ts';

export const budgetMs = (config: RunConfig): number | null =>
  config.budget === null ? null : durationMs(config.budget)!;

export const activeOf = (config: RunConfig): number => config.maxActiveConversations ?? config.numClients;

/** The conversations with the turns and answer lengths that will be served; pools, predictions and totals use these. */
export function asServed(
  conversations: readonly BenchConversation[],
  {
    limitMaxTokens: limit,
    maxTokens,
    maxTurns,
  }: Pick<RunConfig, 'limitMaxTokens' | 'maxTokens' | 'maxTurns'>,
): readonly BenchConversation[] {
  const outputOf = (tokens: number | null): number | null =>
    limit > 0 ? limit : limit < 0 ? maxTokens : tokens;
  return conversations.map((conversation) => ({
    ...conversation,
    turns: conversation.turns
      .slice(0, turnsOf({ conversation }, { maxTurns }))
      .map((turn) => ({ ...turn, outputTokens: outputOf(turn.outputTokens) })),
  }));
}

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
