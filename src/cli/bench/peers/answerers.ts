/** Contenders for greedy answers with a whole model on this machine. llama.cpp is optional. */
import { AdapterError, ConfigError } from '../../../errors.ts';
import { isLavapipe } from '../../../gpu/adapter-name.ts';
import { loadWeights } from '../../../model/load.ts';
import { adapterInUse } from '../../../platform/node/adapters.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { type Answer, AnswerTimes, answer, engineAlone } from '../engine/alone.ts';

export interface Question {
  model: string;
  /** The same weights for llama.cpp. */
  gguf: string;
  promptTokens: number;
  /** Most concurrent prompts. */
  sequences: number;
  /** Tokens per prompt. */
  answerTokens: number;
}

export type AnswerPrompts = (prompts: readonly number[][]) => Promise<Answer>;

export const answerers = {
  kvferry: (question: Question) => ours(question, null),
  'kvferry, no driver threads': (question: Question) => ours(question, false),
  'llama.cpp Vulkan': (question: Question) => llamaCpp(question, 'vulkan'),
  'llama.cpp CPU, 2 threads': (question: Question) => llamaCpp(question, false),
} as const satisfies Record<string, (question: Question) => Promise<AnswerPrompts>>;

export type AnswererName = keyof typeof answerers;

async function ours(
  { model, promptTokens, sequences, answerTokens }: Question,
  driverThreads: boolean | null,
): Promise<AnswerPrompts> {
  const adapter = adapterInUse();
  if (driverThreads === false && !(adapter && isLavapipe(adapter)))
    throw new AdapterError("only lavapipe's driver can run without its own threads");
  const files = await nodePlatform.openModel(model);
  const weights = await loadWeights({ name: model, files, dtype: 'f16', seed: 0 });
  const cases = [{ context: promptTokens + answerTokens, sequences }];
  const engine = await engineAlone(weights, { promptTokens, cases, driverThreads });
  let asked = 0;
  return (prompts) => answer(engine, `question ${asked++}`, prompts, answerTokens);
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

async function llamaCpp(
  { gguf, promptTokens, sequences, answerTokens }: Question,
  gpu: 'vulkan' | false,
): Promise<AnswerPrompts> {
  // The loader finds only the adapter in use. llama.cpp treats it as a CPU unless it is named.
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
  const contextSize = 2 * promptTokens + answerTokens;
  const context = await model.createContext({
    contextSize,
    batchSize: promptTokens,
    sequences,
    threads: THREADS,
  });
  const all = Array.from({ length: sequences }, () => context.getSequence());
  return async (prompts) => {
    for (const sequence of all) await sequence.clearHistory();
    const times = new AnswerTimes(prompts.length);
    const say = async (prompt: readonly number[], i: number) => {
      let left = answerTokens;
      for await (const token of all[i]!.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
        times.token(i, token);
        if (--left === 0) break;
      }
    };
    await Promise.all(prompts.map(say));
    return times.ended();
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
