/**
 * `npm run bench:engine`: one engine alone on one adapter: start, prefill of 1,024 tokens, and decode of one and of four
 * sequences behind them. No scheduler, no transfers: the runner is called as the scheduler would.
 */
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { ScheduledRequest } from '../../engine/types.ts';
import { ConfigError } from '../../errors.ts';
import { quantile } from '../../measure/statistics.ts';
import { loadWeights } from '../../model/load.ts';
import { putOnDevice } from '../../model/on-device.ts';
import { systemClock } from '../../platform/clock.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { formatMs } from '../format.ts';
import { plainStyle, renderTable } from '../table.ts';
import { benchOptions, report, runBench } from './options.ts';

const PROMPT = 1024;
const DECODE_STEPS = 32;
const BLOCK_SIZE = 16;
const SEQUENCES = [1, 4] as const;

const params = { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true };

await runBench(async () => {
  const options = benchOptions('bench:engine', 'one engine alone: start, prefill and decode', {
    model: 'tiny',
    rounds: 5,
  });
  const files = await nodePlatform.openModel(options.model);
  const adapter = await useAdapter(options.adapter);
  const begun = systemClock.now();
  const weights = await loadWeights({ name: options.model, files, dtype: 'f16', seed: 0 });
  const { architecture } = weights;
  const tokens = PROMPT + DECODE_STEPS;
  if (architecture.maxModelLen < tokens) {
    throw new ConfigError(`${options.model} goes up to ${architecture.maxModelLen} tokens: wanted ${tokens}`);
  }
  const blocksEach = Math.ceil(tokens / BLOCK_SIZE);
  const numBlocks = 1 + Math.max(...SEQUENCES) * blocksEach;
  const { gpu, kv, runner } = await putOnDevice(nodePlatform, weights, {
    ...{ numBlocks, kvDtype: 'f16', layout: 'contiguous', keepLogits: false, clock: systemClock },
    limits: { maxNumBatchedTokens: PROMPT, maxNumSeqs: 8, maxModelLen: tokens, blockSize: BLOCK_SIZE },
  });
  try {
    const { weightsMs, compileMs, pipelines } = await runner.warmUp();
    const startMs = systemClock.now() - begun;

    const ids = Array.from({ length: tokens }, (_, i) => (i * 7919 + 13) % architecture.vocabSize);
    const part = (sequence: number, from: number, to: number): ScheduledRequest => ({
      requestId: `s${sequence}`,
      tokenIds: ids.slice(from, to),
      startPosition: from,
      blockIds: [Array.from({ length: blocksEach }, (_, i) => 1 + sequence * blocksEach + i)],
      sample: { params, outputIndex: 0, forbiddenTokenIds: [] },
    });
    const timed = async (requests: ScheduledRequest[]): Promise<number> => {
      const start = systemClock.now();
      await runner.execute({ step: 0, requests });
      return systemClock.now() - start;
    };

    for (let s = 0; s < Math.max(...SEQUENCES); s++) await timed([part(s, 0, PROMPT)]);
    const prefillMs: number[] = [];
    for (let round = 0; round < options.rounds; round++) prefillMs.push(await timed([part(0, 0, PROMPT)]));
    const decode = [];
    for (const sequences of SEQUENCES) {
      const stepMs: number[] = [];
      for (let at = PROMPT; at < tokens; at++) {
        stepMs.push(await timed(Array.from({ length: sequences }, (_, s) => part(s, at, at + 1))));
      }
      decode.push({ sequences, stepMs });
    }
    runner.destroy();
    kv.destroy();
    const columns = [
      { head: 'what', align: 'left' as const },
      { head: 'median ms' },
      { head: 'least' },
      { head: 'most' },
    ];
    const row = (what: string, ms: readonly number[]) => [
      what,
      formatMs(quantile(ms, 0.5)),
      formatMs(Math.min(...ms)),
      formatMs(Math.max(...ms)),
    ];
    report(
      options,
      [
        `${options.model} alone on ${adapter.name}`,
        `start ${formatMs(startMs)} ms; weights ${formatMs(weightsMs)} ms, and beside them ${pipelines} pipelines ${formatMs(compileMs)} ms (warm if the driver had them cached)`,
        '',
        ...renderTable(
          columns,
          [
            row(`prefill of ${PROMPT} tokens`, prefillMs),
            ...decode.map(({ sequences, stepMs }) =>
              row(`decode step, ${sequences} sequence${sequences > 1 ? 's' : ''}`, stepMs),
            ),
          ],
          plainStyle,
        ),
        '',
        `pipelines first used after the warm-up: ${runner.firstUseCompilations()}`,
      ],
      {
        adapter: gpu.report,
        model: options.model,
        startMs,
        weightsMs,
        compileMs,
        pipelines,
        promptTokens: PROMPT,
        prefillMs,
        decode,
      },
    );
  } finally {
    gpu.destroy();
  }
});
