/** A picture of one turn: per mode, a bar for the time to the first token, split into stages. */

import { formatMs, plural } from '../../measure/format.ts';
import type { Report, TurnReport } from '../../measure/schemas/report.ts';
import { foldStages } from '../../measure/spans/stages.ts';
import { turnName } from '../../measure/spans/turn-key.ts';
import { timedTurns } from '../../measure/summaries/summary.ts';
import { hasStore } from '../../report/verdict.ts';
import { fill, fillLeft, WIDTH } from './format.ts';

/** `stored`: label if some KV comes from a store. */
const PARTS = [
  { part: 'pull', mark: '▒', label: 'pull D→P', stored: 'load, pull' },
  { part: 'prefill', mark: '█', label: 'prefill', stored: 'prefill' },
  { part: 'hand_over', mark: '░', label: 'handover P→D', stored: 'handover' },
  { part: 'first_decode_step', mark: '▓', label: 'first on D', stored: 'first on D' },
  { part: 'between', mark: '·', label: 'between', stored: 'between' },
] as const;

const NAME = 16;
const TIME = 12;

/** The turn that pulled the most, in every mode; empty if nothing was pulled. */
export function turnPicture(report: Report): string[] {
  const timedOf = timedTurns(report.runs);
  const pulling = timedOf
    .flat()
    .reduce<TurnReport | null>(
      (most, turn) => (turn.pulled_tokens > (most?.pulled_tokens ?? 0) ? turn : most),
      null,
    );
  if (!pulling) return [];
  const served = report.runs.flatMap(({ mode }, i) => {
    const same = timedOf[i]!.find(
      ({ conversation_id, turn }) => conversation_id === pulling.conversation_id && turn === pulling.turn,
    );
    return same ? [{ mode, turn: same }] : [];
  });
  const stores = hasStore(report.runs);
  const several = timedOf.flat().some(({ conversation_id }) => conversation_id !== pulling.conversation_id);
  const longest = Math.max(...served.map(({ turn }) => turn.ttft_ms));
  const perMs = (WIDTH - NAME - TIME) / longest;
  return [
    `${turnName(pulling, several)} (${plural(pulling.prompt_tokens, 'prompt token')}): time to the first token by stage`,
    ...served.map(
      ({ mode, turn }) =>
        fill(mode, NAME) +
        fill(bar(turn, perMs), WIDTH - NAME - TIME) +
        fillLeft(`${formatMs(turn.ttft_ms)} ms`, TIME),
    ),
    ' '.repeat(NAME) +
      PARTS.map(({ mark, label, stored }) => `${mark} ${stores ? stored : label}`).join('  '),
  ];
}

/** Rounds the ends of stages rather than their lengths, so that the total length is right. */
function bar({ stages_ms }: TurnReport, perMs: number): string {
  const sums = foldStages(stages_ms);
  let text = '';
  let endMs = 0;
  for (const { part, mark } of PARTS) {
    endMs += sums[part] ?? 0;
    text += mark.repeat(Math.max(0, Math.round(endMs * perMs) - text.length));
  }
  return text;
}
