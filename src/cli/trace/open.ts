/** The trace that the settings name, opened for whatever is done with it. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { BadLines } from '../../workload/traces/bad-lines.ts';
import { type OpenTrace, openTrace } from '../../workload/traces/read.ts';
import type { TraceScale } from '../../workload/traces/types.ts';
import type { Asked } from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { ofTimes, refuseUnused } from '../unused.ts';

export type Given = Asked['given'];

export interface NamedTrace extends OpenTrace {
  source: string;
  scale: TraceScale;
  bad: BadLines;
}

/**
 * `given`: options, of which those for traces without times are refused where it has some. `divisor`: of lengths, where
 * --trace-scale is not given. Throws ConfigError.
 */
export async function openNamedTrace(
  config: RunConfig,
  deps: Pick<CliDeps, 'readTextPieces'>,
  given: Given,
  divisor: (traceBlockSize: number) => number = () => 1,
): Promise<NamedTrace> {
  const source = config.trace;
  if (source === null) throw new ConfigError('no trace is named: wanted the name of a file');
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

/** Of English text a word is 1.3 tokens in most vocabularies: lengths only, no tokenizer is loaded for them. */
const TOKENS_PER_WORD = 1.3;

const countWords = (text: string): number => Math.ceil(TOKENS_PER_WORD * (text.match(/\S+/g)?.length ?? 0));
