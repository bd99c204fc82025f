/** Opens the trace that the settings name. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { BadLines } from '../../workload/traces/bad-lines.ts';
import { type OpenTrace, openTrace } from '../../workload/traces/read.ts';
import type { TraceScale } from '../../workload/traces/types.ts';
import type { CliDeps } from '../deps.ts';
import type { CommandInput } from '../options/arguments.ts';
import { ofTimes, refuseUnused } from '../options/unused-options.ts';

export type Given = CommandInput['given'];

export interface NamedTrace extends OpenTrace {
  source: string;
  scale: TraceScale;
  bad: BadLines;
}

/**
 * `given`: options on the command line; those for traces without times are refused if the trace has times. `divisor`:
 * divides lengths if --trace-scale is not given. Throws ConfigError.
 */
export async function openNamedTrace(
  config: RunConfig,
  deps: Pick<CliDeps, 'readTextPieces'>,
  given: Given,
  divisor: (traceBlockSize: number) => number = () => 1,
): Promise<NamedTrace> {
  const source = config.trace;
  if (source === null) throw new ConfigError('no trace is given: wanted a file name');
  const bad = new BadLines(source, config.skipBad);
  const opened = await openTrace(deps.readTextPieces(source), {
    source,
    format: config.traceFormat,
    traceBlockSize: config.traceBlockSize,
    limit: config.limit,
    countTokens: countWords,
    untimed: { perSecond: config.conversationRate, thinkMs: config.thinkTime, seed: config.seed },
    bad,
  });
  refuseUnused(given, [ofTimes(opened.format)]);
  const { traceBlockSize } = opened;
  const lengthDivisor =
    config.traceScale === null ? divisor(traceBlockSize) : scaleDivisor(config.traceScale)!;
  return { ...opened, source, bad, scale: { traceBlockSize, lengthDivisor, speedUp: config.speedUp } };
}

/** An English word is about 1.3 tokens in most vocabularies. Only lengths are needed, so no tokenizer is loaded. */
const TOKENS_PER_WORD = 1.3;

const countWords = (text: string): number => Math.ceil(TOKENS_PER_WORD * (text.match(/\S+/g)?.length ?? 0));
