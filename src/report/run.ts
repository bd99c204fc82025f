/** The document of a `kvferry run` report. */

import {
  formatBytes,
  formatCount,
  formatMb,
  formatMs,
  formatParameters,
  formatSeconds,
  plural,
} from '../measure/format.ts';
import { outcomeOf, SINGLE_NOISE, TIE, within } from '../measure/outcome.ts';
import type { Report, RunReport, TurnReport } from '../measure/schemas/report.ts';
import { groupStages, meanStages, stageNames } from '../measure/spans/stages.ts';
import { auditTotals } from '../measure/summaries/audit.ts';
import { timedTurns } from '../measure/summaries/summary.ts';
import { sum } from '../sum.ts';
import { auditSentence, auditTable } from './audit.ts';
import {
  type DocumentParts,
  left,
  type Piece,
  right,
  type Section,
  type TablePiece,
  under,
} from './document.ts';
import { keyFigures } from './key-figures.ts';
import { profileSection } from './profile.ts';
import { pullingWaterfall, STAGE_PARTS, stageMeaning } from './stage-parts.ts';
import { modelledLinks, THROTTLED } from './throttled.ts';
import { timelineSection } from './timeline.ts';
import {
  adapterName,
  hasStore,
  isStreamed,
  persistedKvNote,
  pulledNothingFromD,
  STREAMED,
  savings,
  storeUse,
  windowSavings,
} from './verdict.ts';

export function runParts(report: Report): DocumentParts {
  const { runs } = report;
  const links = modelledLinks({ link: report.link?.name ?? null, config: report.config });
  const timedOf = timedTurns(runs);
  const timed = runs.map(({ mode }, i) => ({ mode, turns: timedOf[i]! }));
  const conversations = new Set(runs.flatMap(({ turns }) => turns.map((turn) => turn.conversation_id))).size;
  const labels = [...(links ? [`${THROTTLED}: ${links}`] : []), ...(isStreamed(report) ? [STREAMED] : [])];
  return {
    headline: headline(report),
    subtitle: `${report.model.name} on ${adapterName(report)}: ${plural(conversations, 'conversation')}, ${plural(runs[0]?.turns.length ?? 0, 'turn')} in each of ${plural(runs.length, 'mode')}.${links ? ` Modelled link: ${links}.` : ''}`,
    incomplete: null,
    labels,
    sections: [
      sideBySide(report),
      stagesSection(timed),
      ttftSection(timed),
      ...(report.timeline
        ? [timelineSection(report.timeline, report.start_up.engines, conversations > 1)]
        : []),
      turnsSection(report),
      ...auditSection(report),
      ...(report.profile ? [profileSection(report.profile)] : []),
    ],
    facts: {
      kind: 'facts',
      title: 'Model and engines',
      facts: [
        ['model', `${report.model.name}, ${formatParameters(report.model.parameters)} parameters`],
        ['KV per token', formatBytes(report.model.kv_bytes_per_token)],
        ['KV block', formatBytes(report.model.block_bytes)],
        ['start-up, not counted above', formatSeconds(report.start_up.total_ms)],
        ...report.start_up.engines.map(({ engine_id, num_blocks, compile_ms }): [string, string] => [
          engine_id,
          `${formatCount(num_blocks)} blocks; compiled in ${formatSeconds(compile_ms)}`,
        ]),
      ],
    },
  };
}

function headline(report: Report): string {
  const { comparison } = report;
  if (comparison && !comparison.logits_identical)
    return 'The modes disagree: the figures below are not valid';
  const gain = comparison?.ttft_later_turns_ms?.mean;
  if (!gain || gain.ratio === null || persistedKvNote(report))
    return `${report.runs.map(({ mode }) => mode).join(', ')}: results`;
  if (report.runs.every(({ summary }) => summary.pulled_tokens === 0))
    return 'Nothing was pulled: both modes did the same work';
  if (pulledNothingFromD(report)) return 'Nothing was pulled from D: both modes did the same work';
  return {
    ahead: `Pulling KV back from D makes the first token ${gain.ratio.toFixed(2)}x faster`,
    behind: `Pulling KV back from D makes the first token ${(1 / gain.ratio).toFixed(2)}x slower here`,
    tie: `Pulling KV back from D makes ${TIE} to TTFT here`,
  }[outcomeOf(within(gain.ratio, SINGLE_NOISE))];
}

function sideBySide(report: Report): Section {
  const sentences = [savings(report), windowSavings(report.windows, report.config), storeUse(report)];
  const sentence = sentences.filter((one) => one !== null).join(' ');
  const figures = persistedKvNote(report) || pulledNothingFromD(report) ? null : keyFigures(report);
  return {
    title: 'Side by side',
    ...(sentence ? { intro: sentence } : {}),
    pieces: [...(figures ? [figures] : []), summaryTable(report)],
  };
}

function summaryTable({ runs }: Report): TablePiece {
  const stores = hasStore(runs);
  return {
    kind: 'table',
    title: 'Modes',
    columns: [
      left('mode'),
      ...under('mean TTFT, ms', 'turn 1', 'turns 2+'),
      ...under('TTFT turns 2+, ms', 'p50', 'p90'),
      { head: 'TPOT, ms' },
      ...under('prompt tokens', 'pulled', 'computed'),
      ...under('MB moved', 'P→D', 'D→P', ...(stores ? ['store→', '→store'] : [])),
    ],
    rows: runs.map(({ mode, summary }) => [
      { text: mode, strong: true },
      formatMs(summary.ttft_first_turn_ms?.mean ?? null),
      formatMs(summary.ttft_later_turns_ms?.mean ?? null),
      formatMs(summary.ttft_later_turns_ms?.p50 ?? null),
      formatMs(summary.ttft_later_turns_ms?.p90 ?? null),
      formatMs(summary.tpot_ms?.mean ?? null),
      formatCount(summary.pulled_tokens),
      formatCount(summary.computed_tokens),
      formatMb(summary.bytes_p_to_d),
      formatMb(summary.bytes_d_to_p),
      ...(stores ? [formatMb(summary.bytes_from_store ?? 0), formatMb(summary.bytes_to_store ?? 0)] : []),
    ]),
    note: 'TTFT: from the router accepting the request to the first token. TPOT: mean time between later tokens.',
  };
}

/** A mode with its timed turns. */
type Timed = Pick<RunReport, 'mode'> & { turns: readonly TurnReport[] };

function stagesSection(timed: readonly Timed[]): Section {
  const hasLater = timed.some(({ turns }) => turns.some(({ turn }) => turn > 1));
  const later = timed.map(({ mode, turns }) => ({
    mode,
    stages: meanStages(hasLater ? turns.filter(({ turn }) => turn > 1) : turns),
  }));
  const of = (mode: string) => later.find((run) => run.mode === mode)?.stages;
  const [without, pulling] = [of('unidirectional'), of('bidirectional')];
  const used = new Set(later.flatMap(({ stages }) => Object.keys(stages)));
  const names = [
    ...stageNames.filter((name) => used.has(name)),
    ...[...used].filter((name) => stageMeaning(name) === null),
  ];
  const pieces: Piece[] = [
    {
      kind: 'stages',
      title: `Mean time to the first token${hasLater ? ', turns 2+' : ''}`,
      unit: 'ms',
      parts: STAGE_PARTS,
      bars: later.map(({ mode, stages }) => ({ name: mode, values: groupStages(stages) })),
    },
  ];
  if (without && pulling) pieces.push(pullingWaterfall(without, pulling));
  pieces.push({
    kind: 'table',
    title: 'All stages, mean ms per turn',
    folded: true,
    columns: [
      { head: 'stage', align: 'left' },
      ...later.map(({ mode }) => ({ head: mode })),
      { head: 'meaning', align: 'left' },
    ],
    rows: names.map((name) => [
      name,
      ...later.map(({ stages }) => formatMs(stages[name] ?? null)),
      stageMeaning(name) ?? '',
    ]),
  });
  return {
    title: 'Time to the first token by stage',
    intro: 'Each moment counts once, for the stage that the first token was waiting for.',
    pieces,
  };
}

function ttftSection(runs: readonly Timed[]): Section {
  const conversations = [...new Set(runs.flatMap(({ turns }) => turns.map((turn) => turn.conversation_id)))];
  const longest = Math.max(0, ...runs.flatMap(({ turns }) => turns.map(({ turn }) => turn)));
  const meanAt = (turns: readonly TurnReport[], turn: number): number[] => {
    const times = turns.filter((t) => t.turn === turn).map(({ ttft_ms }) => ttft_ms);
    return times.length === 0 ? [] : [sum(times) / times.length];
  };
  return {
    title: 'Time to the first token',
    pieces: [
      {
        kind: 'distribution',
        title: 'Every turn',
        unit: 'ms',
        series: runs.map(({ mode, turns }) => ({ name: mode, values: turns.map(({ ttft_ms }) => ttft_ms) })),
        note: 'Each dot is a turn. The bar spans the middle half; the line across it is the median.',
      },
      ...(longest > 1
        ? [
            {
              kind: 'curve',
              title: 'TTFT by turn',
              x: { label: 'turn' },
              y: { label: conversations.length > 1 ? 'TTFT, ms, mean of the conversations' : 'TTFT, ms' },
              series: runs.map(({ mode, turns }) => ({
                name: mode,
                points: Array.from({ length: longest }, (_, i) => i + 1).flatMap((turn) =>
                  meanAt(turns, turn).map((y) => ({ x: turn, y })),
                ),
              })),
            } as const,
          ]
        : []),
    ],
  };
}

function auditSection({ runs, config }: Report): Section[] {
  const turns = runs.flatMap((run) =>
    run.turns.flatMap(({ audit, ...turn }) => (audit ? [{ ...turn, ...audit }] : [])),
  );
  if (turns.length === 0) return [];
  return [
    {
      title: 'Audit',
      intro: `${auditSentence(auditTotals(turns), String(config.pullPolicy))} These turns do not count in the times of the modes.`,
      pieces: [auditTable(turns)],
    },
  ];
}

const MOST_ROWS = 200;

function turnsSection({ runs }: Report): Section {
  const stores = hasStore(runs);
  return {
    title: 'Turn by turn',
    intro: `A prompt consists of tokens hit in P’s own cache, tokens pulled from D${stores ? ' or the store' : ''}, and computed tokens.`,
    pieces: runs.map(({ mode, turns }) => ({
      kind: 'table',
      title: mode,
      folded: true,
      columns: [
        left('turn'),
        ...under('prompt tokens', 'prompt', 'hit', 'pulled', 'computed'),
        ...right('TTFT, ms', 'TPOT, ms'),
        ...under('MB moved', 'P→D', 'D→P', ...(stores ? ['store→P', 'store→D'] : [])),
      ],
      rows: turns
        .slice(0, MOST_ROWS)
        .map((turn) => [
          `${turn.conversation_id}, ${turn.turn}`,
          formatCount(turn.prompt_tokens),
          formatCount(turn.local_hit_tokens),
          formatCount(turn.pulled_tokens),
          formatCount(turn.computed_tokens),
          formatMs(turn.ttft_ms),
          formatMs(turn.tpot_ms),
          formatMb(turn.transfer.p_to_d.bytes),
          formatMb(turn.transfer.d_to_p.bytes),
          ...(stores
            ? [turn.transfer.store_to_p, turn.transfer.store_to_d].map((one) => formatMb(one?.bytes ?? 0))
            : []),
        ]),
      ...(turns.length > MOST_ROWS
        ? { note: `${plural(turns.length - MOST_ROWS, 'more turn')} in the JSON report.` }
        : {}),
    })),
  };
}
