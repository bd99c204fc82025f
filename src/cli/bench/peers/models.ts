/** Compares a whole model in kvferry and llama.cpp: same weights and prompt, alternating rounds, greedy tokens compared. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../../errors.ts';
import { median } from '../../../measure/statistics.ts';
import { loadWeights } from '../../../model/load.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { left, right } from '../../../report/document.ts';
import { sum } from '../../../sum.ts';
import { packed, plainStyle, renderTable } from '../../output/table.ts';
import { type Answer, promptOf } from '../engine/alone.ts';
import { type AnswererName, answerers } from './answerers.ts';
import { writeGguf } from './gguf.ts';
import type { FromAnswerer, ToAnswerer } from './model-child.ts';
import { ask, standStill } from './turns.ts';

export const LLAMA_PACKAGES = ['node-llama-cpp@3.22'];
const PROMPT = 128;
const ANSWER = 32;
/** Numbers of concurrent prompts. */
const AT_ONCE = [1, 4] as const;

export interface ModelFigure {
  answerer: AnswererName;
  /** Tokens per second by round, decoding one sequence and four; null, with a reason, if it could not run. */
  answers: { prefill: number; decode1: number; decode4: number }[] | null;
  why: string | null;
  /** The library is not installed. */
  missing: boolean;
  /** Greedy tokens equal to ours at the same position. */
  sameTokens: number;
}

/** Empty, with a message on stderr, for a model that does not fit a Llama-shaped GGUF file. */
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
      const entry: Running = { answerer, child, rounds: [], why: null, missing: false };
      running.push(entry);
      const question = {
        model,
        gguf,
        promptTokens: PROMPT,
        sequences: Math.max(...AT_ONCE),
        answerTokens: ANSWER,
      };
      await request(entry, { kind: 'prepare', answerer, adapter, question });
    }
    const prompts = Array.from({ length: Math.max(...AT_ONCE) }, (_, i) =>
      promptOf(PROMPT, weights.architecture.vocabSize, i + 1),
    );
    // The first round compiles and does not count.
    for (let round = 0; round <= rounds; round++) {
      for (const entry of running) {
        if (entry.why !== null) continue;
        standStill(running, entry);
        const said: Answer[] = [];
        for (const count of AT_ONCE) {
          if (entry.why !== null) break;
          const answer = await request(entry, { kind: 'round', prompts: prompts.slice(0, count) });
          if (answer) said.push(answer);
        }
        if (said.length === AT_ONCE.length && round > 0) entry.rounds.push(said as Round);
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

/** By number of concurrent prompts. */
type Round = [one: Answer, four: Answer];

interface Running {
  answerer: AnswererName;
  child: ChildProcess;
  rounds: Round[];
  why: string | null;
  missing: boolean;
}

async function request(entry: Running, message: ToAnswerer): Promise<Answer | null> {
  const said = await ask<FromAnswerer>(entry.child, message);
  if (said.kind === 'missing' || said.kind === 'failed') entry.why = said.why;
  if (said.kind === 'missing') entry.missing = true;
  return said.kind === 'done' ? said.answer : null;
}

function figuresOf(running: readonly Running[]): ModelFigure[] {
  const tokensOf = ({ rounds }: Running) => rounds[0]?.flatMap(({ tokens }) => tokens.flat()) ?? [];
  const ours = tokensOf(running[0]!);
  return running.map((entry) => {
    const theirs = tokensOf(entry);
    const rates = entry.rounds.map(([one, four]) => ({
      prefill: (1000 * PROMPT) / one.firstMs,
      decode1: 1000 / median(one.stepMs),
      decode4: (1000 * four.tokens.length) / median(four.stepMs),
    }));
    return {
      answerer: entry.answerer,
      answers: entry.why === null ? rates : null,
      why: entry.why,
      missing: entry.missing,
      sameTokens: ours.filter((token, i) => token === theirs[i]).length,
    };
  });
}

export function modelTable(model: string, figures: readonly ModelFigure[]): string[] {
  if (figures.length === 0) return [];
  const columns = [
    left('library'),
    ...[`prefill ${PROMPT}`, 'decode 1', 'decode 4'].flatMap((what) => packed(what, 'rate', 'ours')),
    ...right('same'),
  ];
  const ours = figures[0]!.answers;
  const rows = figures.map(({ answerer, answers, why, sameTokens }) => {
    if (!answers) return { remark: `${answerer} skipped: ${why}` };
    const cells = (of: 'prefill' | 'decode1' | 'decode4') => [
      median(answers.map((each) => each[of])).toFixed(0),
      ours ? `${median(answers.map((each, i) => ours[i]![of] / each[of])).toFixed(2)}x` : '-',
    ];
    const all = ANSWER * sum(AT_ONCE);
    return [
      answerer,
      ...cells('prefill'),
      ...cells('decode1'),
      ...cells('decode4'),
      `${sameTokens} of ${all}`,
    ];
  });
  return [
    model,
    '',
    ...renderTable(columns, rows, plainStyle),
    'rate: tokens per second; ours: speed-up of kvferry, median of rounds;',
    'same: greedy tokens equal to ours',
  ];
}
