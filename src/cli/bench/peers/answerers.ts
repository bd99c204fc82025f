/** Who answers a prompt with a whole model on the same machine, greedily. llama.cpp is looked for, not required. */
import { ConfigError } from '../../../errors.ts';
import { loadWeights } from '../../../model/load.ts';
import { systemClock } from '../../../platform/clock.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { type Answer, answer, engineAlone } from '../engine/alone.ts';

export interface Question {
  model: string;
  /** The same weights for llama.cpp. */
  gguf: string;
  promptTokens: number;
}

export type AnswerPrompt = (prompt: number[], count: number) => Promise<Answer>;

export const answerers = {
  kvferry: (question: Question) => ours(question, null),
  'kvferry, no driver threads': (question: Question) => ours(question, false),
  'llama.cpp Vulkan': (question: Question) => llamaCpp(question, 'vulkan'),
  'llama.cpp CPU, 2 threads': (question: Question) => llamaCpp(question, false),
} as const satisfies Record<string, (question: Question) => Promise<AnswerPrompt>>;

export type AnswererName = keyof typeof answerers;

async function ours({ model, promptTokens }: Question, driverThreads: boolean | null): Promise<AnswerPrompt> {
  const files = await nodePlatform.openModel(model);
  const weights = await loadWeights({ name: model, files, dtype: 'f16', seed: 0 });
  const cases = [{ context: promptTokens, sequences: 1 }];
  const engine = await engineAlone(weights, { promptTokens, cases, driverThreads });
  let asked = 0;
  return (prompt, count) => answer(engine, `question ${asked++}`, prompt, count);
}

interface LlamaCpp {
  getLlama(options: object): Promise<{ loadModel(options: object): Promise<LlamaModel> }>;
}
interface LlamaModel {
  createContext(options: object): Promise<{ getSequence(): LlamaSequence }>;
}
interface LlamaSequence {
  clearHistory(): Promise<void>;
  evaluate(tokens: readonly number[], options: object): AsyncIterable<number>;
}

const THREADS = 2;

async function llamaCpp({ gguf, promptTokens }: Question, gpu: 'vulkan' | false): Promise<AnswerPrompt> {
  // The adapter that is in use is the only one that the loader finds; it is a CPU to llama.cpp unless it is named.
  process.env.GGML_VK_VISIBLE_DEVICES ??= '0';
  const { getLlama } = await library();
  const llama = await getLlama({
    gpu,
    build: 'never',
    logLevel: 'error',
    maxThreads: THREADS,
    vramPadding: 0,
  });
  const model = await llama.loadModel({ modelPath: gguf, gpuLayers: gpu ? 'max' : 0 });
  const contextSize = 4 * promptTokens;
  const context = await model.createContext({ contextSize, batchSize: promptTokens, threads: THREADS });
  const sequence = context.getSequence();
  return async (prompt, count) => {
    await sequence.clearHistory();
    const [tokens, ms]: [number[], number[]] = [[], []];
    let last = systemClock.now();
    for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      const now = systemClock.now();
      tokens.push(token);
      ms.push(now - last);
      last = now;
      if (tokens.length === count) break;
    }
    const [prefillMs = 0, ...stepMs] = ms;
    return { prefillMs, stepMs, tokens };
  };
}

async function library(): Promise<LlamaCpp> {
  try {
    return (await import('node-llama-cpp' as string)) as LlamaCpp;
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ConfigError('node-llama-cpp is not installed');
  }
}
