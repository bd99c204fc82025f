/** The table of numbers for the class, filled in from measurements. Values that were not measured stay empty. No DOM. */

import { isConversation } from '../session/conversation/conversation.ts';
import type {
  Crossover,
  Machine,
  Race,
  RaceLane,
  Settings,
  TransferView,
  TurnView,
} from '../session/types.ts';
import { crossover as crossing } from './crossover/crossover-math.ts';
import { ms, plural, rate, times } from './format.ts';
import { measured, movedMs } from './measured.ts';
import { isModelled } from './race/stage-names.ts';
import { verdictOf } from './race/verdict.ts';
import { type Direction, directionOf } from './stage/direction.ts';

export interface NumberRow {
  what: string;
  /** null until it is measured. */
  value: string | null;
  /** Why there is no value yet, and how to get one. */
  how: string;
}

export interface NumberFacts {
  /** They decide what can move between P and D. */
  settings: Pick<Settings, 'mode' | 'store' | 'path'>;
  machine: Machine | null;
  turns: readonly TurnView[];
  transfers: readonly TransferView[];
  race: Race | null;
  crossover: Crossover | null;
  /** The facts come from a recording. */
  recorded: boolean;
}

export function numberRows(facts: NumberFacts): NumberRow[] {
  // Nothing can be measured in a recording.
  const why = (how: string): string => (facts.recorded ? 'not in the recording so far' : `not yet: ${how}`);
  return measuredRows(facts).map((row) => ({ ...row, how: why(row.how) }));
}

/** How to get the row of a copy between P and D, which some settings never make. */
function howToMove({ mode, store, path }: NumberFacts['settings'], how: string): string {
  if (store !== null && path === 'store') return 'all KV goes through the store; take another path';
  return mode === 'monolithic' ? 'ask with P and D, not one engine' : how;
}

function measuredRows({ settings, machine, turns, transfers, race, crossover }: NumberFacts): NumberRow[] {
  const own = turns.filter(isConversation).flatMap(({ result }) => result ?? []);
  const tpot = own.findLast(({ tpot_ms }) => tpot_ms !== null)?.tpot_ms ?? null;
  const crossed = crossing(measured(crossover));
  const overLink = crossover?.link ? MODELLED : '';
  const ready = race && race.pull.ttftMs !== null && race.recompute.ttftMs !== null ? race : null;
  const ratio = ready ? ready.recompute.ttftMs! / ready.pull.ttftMs! : null;
  const raced = (lane: RaceLane): string => ms(lane.ttftMs!) + (isModelled(lane) ? MODELLED : '');
  return [
    { what: 'adapter', value: machine?.adapter.name ?? null, how: 'open the page' },
    { what: 'model', value: machine?.model.name ?? null, how: 'open the page' },
    { what: 'time between tokens on D', value: tpot === null ? null : ms(tpot), how: 'ask once' },
    { what: 'handover P → D', value: speedOf(transfers, 'p_to_d'), how: howToMove(settings, 'ask once') },
    {
      what: 'pull back D → P',
      value: speedOf(transfers, 'd_to_p'),
      how: howToMove(settings, 'ask three times, both ways'),
    },
    {
      what: 'first token, computed again',
      value: ready && raced(ready.recompute),
      how: 'race the next turn',
    },
    {
      what: 'first token, pulled back',
      value: ready && raced(ready.pull),
      how: 'race the next turn',
    },
    {
      what: 'tokens of history in the race',
      value: ready ? String(ready.historyTokens) : null,
      how: 'race the next turn',
    },
    {
      what: 'computed again / pulled back',
      value:
        ratio === null
          ? null
          : `${times(ratio)}${verdictOf(ready!)?.winner === 'neither' ? ', no clear difference' : ''}${isModelled(ready!.pull) ? MODELLED : ''}`,
      how: 'race the next turn',
    },
    {
      what: 'pulling wins from',
      value:
        crossed === null
          ? null
          : `${
              typeof crossed === 'number'
                ? `${Math.round(crossed)} tokens`
                : crossed === 'always'
                  ? 'the shortest length measured'
                  : 'no length measured'
            }${overLink}`,
      how: 'measure where pulling begins to win',
    },
  ];
}

const MODELLED = ', modelled link';

function speedOf(transfers: readonly TransferView[], direction: Direction): string | null {
  const last = transfers.findLast(
    (transfer) => directionOf(transfer) === direction && transfer.outcome === 'done' && transfer.bytes > 0,
  );
  if (!last || last.endMs === null) return null;
  const took = movedMs(last);
  return `${rate(last.bytes, took)} (${plural(last.pairs.length, 'block')} in ${ms(took)}${last.chunks ? ', streamed' : ''}${last.throttled ? MODELLED : ''})`;
}

/** The table as Markdown, for the clipboard. */
export const asMarkdown = (rows: readonly NumberRow[], recorded: boolean): string =>
  [
    `| | ${recorded ? 'a recording' : 'this machine'} |`,
    '|-|-|',
    ...rows.map(({ what, value }) => `| ${what} | ${value ?? 'not measured'} |`),
  ].join('\n');
