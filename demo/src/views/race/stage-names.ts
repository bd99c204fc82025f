/** Colours and names of the stages of a time to the first token. No DOM. */
import { partOf, STAGE_PARTS } from '../../../../src/measure/spans/stages.ts';

export type StageTone = 'p' | 'd' | 'pull' | 'over' | 'store' | 'other';

/** The tone is derived from the stage's name, so that unknown stages get a colour too. */
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
  load_link: 'modelled link, from the store',
  pull: 'pull back D → P',
  pull_link: 'modelled link D → P',
  prefill: 'prefill on P',
  hand_over: 'handover P → D',
  hand_over_link: 'modelled link P → D',
  first_decode_step: 'first step on D',
  between: 'queues and messages',
};

export const stageInWords = (name: string): string => WORDS[name] ?? name.replaceAll('_', ' ');

const LINK = '_link';

export interface ShownStage {
  name: string;
  ms: number;
  /** Time on a modelled link, which was not measured. */
  modelled: boolean;
}

/** Whether part of the time is modelled, not measured. */
export const isModelled = ({ stagesMs }: { stagesMs: Readonly<Record<string, number>> }): boolean =>
  shownStages(stagesMs).some(({ modelled }) => modelled);

/** The parts of a turn that took time, in order. A modelled link's time follows its copy. */
export function shownStages(stagesMs: Readonly<Record<string, number>>): ShownStage[] {
  const order = ['load', ...STAGE_PARTS].flatMap((part) => [part, part + LINK]);
  const sums = new Map(order.map((part) => [part, 0]));
  for (const [name, ms] of Object.entries(stagesMs)) {
    // Loads from the store are a part of their own.
    const part = /^load_[pd]_/.test(name) ? 'load' : partOf(name);
    const key = name.endsWith(LINK) ? part + LINK : part;
    sums.set(key, (sums.get(key) ?? 0) + ms);
  }
  return [...sums]
    .filter(([, ms]) => ms > 0)
    .map(([name, ms]) => ({ name, ms, modelled: name.endsWith(LINK) }));
}
