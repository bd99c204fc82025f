/** Stages of a time to the first token: their colours, their words. No DOM. */
import { foldStages } from '../../../src/measure/stages.ts';

export type StageTone = 'p' | 'd' | 'pull' | 'over' | 'store' | 'other';

/** A stage's name says whose it is: names come from the cluster, and new ones must find a colour too. */
export function stageTone(name: string): StageTone {
  const words = name.toLowerCase();
  if (words.startsWith('load')) return 'store';
  if (words.includes('pull') || words.includes('d_to_p')) return 'pull';
  if (words.includes('hand_over') || words.includes('p_to_d')) return 'over';
  if (words.includes('decode') || words.startsWith('d_')) return 'd';
  if (words.includes('prefill') || words.startsWith('p_')) return 'p';
  return 'other';
}

const WORDS: Readonly<Record<string, string>> = {
  load: 'load from the store',
  pull: 'pull back D → P',
  prefill: 'prefill on P',
  hand_over: 'hand-over P → D',
  first_decode_step: 'first step on D',
  between: 'queues and messages',
};

export const stageInWords = (name: string): string => WORDS[name] ?? name.replaceAll('_', ' ');

/** Parts of a turn that took time, in the order in which they come; what the store gives is one of its own. */
export function shownStages(stagesMs: Readonly<Record<string, number>>): [string, number][] {
  const isLoad = ([name]: [string, number]) => /^load_[pd]_/.test(name);
  const all = Object.entries(stagesMs);
  const load = all.filter(isLoad).reduce((sum, [, took]) => sum + took, 0);
  const rest = Object.fromEntries(all.filter((one) => !isLoad(one)));
  return [['load', load] as [string, number], ...Object.entries(foldStages(rest))].filter(
    ([, took]) => took > 0,
  );
}
