/** A whole model, ours and llama.cpp's: the same weights and prompt, rounds in turn, greedy tokens compared. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../../errors.ts';
import { median } from '../../../measure/statistics.ts';
import { loadWeights } from '../../../model/load.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { left, plainStyle, renderTable, right } from '../../table.ts';
import { type Answer, DECODE_STEPS, promptOf } from '../engine/alone.ts';
import { type AnswererName, answerers } from './answerers.ts';
import { writeGguf } from './gguf.ts';
import type { FromAnswerer, ToAnswerer } from './model-child.ts';
import { ask, standStill } from './turns.ts';

export const LLAMA_PACKAGES = ['node-llama-cpp@3.22'];
const PROMPT = 128;

export interface ModelFigure {
  answerer: AnswererName;
  /** Tokens a second by round; null with a reason when it could not run. */
  answers: { prefill: number; decode: number }[] | null;
  why: string | null;
  /** Of its greedy tokens, those before the first that differs from ours. */
  sameTokens: number;
}

/** Empty for a model that a GGUF file of Llama's shape cannot hold, which is said on stderr. */
export async function compareModels(model: string, adapter: string, rounds: number): Promise<ModelFigure[]> {
  const files = await nodePlatform.openModel(model);
  const weights = await loadWeights({ name: model, files, dtype: 'f16', seed: 0 });
  const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-gguf-'));
  const gguf = path.join(folder, 'model.gguf');
  const running: Running[] = [];
  try {
    await writeGguf(gguf, weights);
    for (const answerer of Object.keys(answerers) as AnswererName[]) {
      process.stderr.write(`${model}: ${answerer}\n`);
      const child = fork(fileURLToPath(new URL('model-child.js', import.meta.url)), {
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      });
      const entry: Running = { answerer, child, answers: [], why: null };
      running.push(entry);
      const question = { model, gguf, promptTokens: PROMPT };
      await tell(entry, { kind: 'prepare', answerer, adapter, question });
    }
    const prompt = promptOf(PROMPT, weights.architecture.vocabSize, 1);
    // The first round compiles, and is not counted.
    for (let round = 0; round <= rounds; round++) {
      for (const entry of running) {
        if (entry.why !== null) continue;
        standStill(running, entry);
        const said = await tell(entry, { kind: 'round', prompt, count: DECODE_STEPS });
        if (said && round > 0) entry.answers.push(said);
      }
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`whole models are not compared: ${error.message}\n`);
    return [];
  } finally {
    for (const { child } of running) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
  return figuresOf(running);
}

interface Running {
  answerer: AnswererName;
  child: ChildProcess;
  answers: Answer[];
  why: string | null;
}

async function tell(entry: Running, message: ToAnswerer): Promise<Answer | null> {
  const said = await ask<FromAnswerer>(entry.child, message);
  if (said.kind === 'missing' || said.kind === 'failed') entry.why = said.why;
  return said.kind === 'done' ? said.answer : null;
}

function figuresOf(running: readonly Running[]): ModelFigure[] {
  const ours = running[0]!.answers[0]?.tokens ?? [];
  return running.map(({ answerer, answers, why }) => {
    const differs = ours.findIndex((token, i) => token !== answers[0]?.tokens[i]);
    const rates = answers.map(({ prefillMs, stepMs }) => ({
      prefill: (1000 * PROMPT) / prefillMs,
      decode: 1000 / median(stepMs),
    }));
    return {
      answerer,
      answers: why === null ? rates : null,
      why,
      sameTokens: differs < 0 ? ours.length : differs,
    };
  });
}

export function modelTable(model: string, figures: readonly ModelFigure[]): string[] {
  if (figures.length === 0) return [];
  const columns = [
    left(`${model}, tokens a second`),
    ...right(`prefill ${PROMPT}`, 'ours', 'decode', 'ours', 'same'),
  ];
  const ours = figures[0]!.answers;
  const rows = figures.map(({ answerer, answers, why, sameTokens }) => {
    if (!answers) return { remark: `${answerer} skipped: ${why}` };
    const cells = (of: 'prefill' | 'decode') => [
      median(answers.map((each) => each[of])).toFixed(0),
      ours ? `${median(answers.map((each, i) => ours[i]![of] / each[of])).toFixed(2)}x` : '-',
    ];
    return [answerer, ...cells('prefill'), ...cells('decode'), `${sameTokens} of ${DECODE_STEPS}`];
  });
  return [
    ...renderTable(columns, rows, plainStyle),
    'ours: so many times faster is kvferry, the median of rounds; same: greedy tokens before one differs',
  ];
}
