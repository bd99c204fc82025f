/** Summarises a mode's turns. */

import { sumOf } from '../../sum.ts';
import type { RunReport, SpanRecorderReport, TurnReport } from '../schemas/report.ts';
import { turnKey } from '../spans/turn-key.ts';
import { summarise } from '../statistics.ts';

export interface RunFacts {
  firstUseCompilations: number;
  preemptions: number;
  wallMs: number;
  /** By role. */
  peakKvBytes?: { prefill: number; decode: number };
  spanRecorder?: SpanRecorderReport;
  /** null or absent: no store. */
  store?: { savedBytes: number; twoHopBytes: number } | null;
}

export function summariseRun(
  mode: RunReport['mode'],
  turns: readonly TurnReport[],
  facts: RunFacts,
): RunReport {
  const sum = (value: (turn: TurnReport) => number): number => sumOf(turns, value);
  return {
    mode,
    turns: [...turns],
    summary: {
      ...times(turns),
      prompt_tokens: sum((turn) => turn.prompt_tokens),
      local_hit_tokens: sum((turn) => turn.local_hit_tokens),
      pulled_tokens: sum((turn) => turn.pulled_tokens),
      computed_tokens: sum((turn) => turn.computed_tokens),
      output_tokens: sum((turn) => turn.output_tokens),
      bytes_p_to_d: sum((turn) => turn.transfer.p_to_d.bytes),
      bytes_d_to_p: sum((turn) => turn.transfer.d_to_p.bytes),
      ...(facts.store
        ? {
            bytes_from_store: sum(
              ({ transfer: { store_to_p, store_to_d } }) =>
                (store_to_p?.bytes ?? 0) + (store_to_d?.bytes ?? 0),
            ),
            bytes_to_store: facts.store.savedBytes,
            two_hop_bytes: facts.store.twoHopBytes,
          }
        : {}),
      first_use_compilations: facts.firstUseCompilations,
      preemptions: facts.preemptions,
      wall_ms: facts.wallMs,
      ...(facts.peakKvBytes ? { peak_kv_bytes: facts.peakKvBytes } : {}),
      ...(facts.spanRecorder ? { span_recorder: facts.spanRecorder } : {}),
    },
  };
}

/** The timed turns of each run. Excludes turns audited in any run, so that modes are compared over the same turns. */
export function timedTurns(runs: readonly RunReport[]): (readonly TurnReport[])[] {
  const audited = new Set(runs.flatMap(({ turns }) => turns.filter(({ audit }) => audit).map(turnKey)));
  return runs.map(({ turns }) => turns.filter((turn) => !audited.has(turnKey(turn))));
}

/** The runs with times over those turns only. */
export function withoutAudited(runs: readonly RunReport[]): RunReport[] {
  const timed = timedTurns(runs);
  return runs.map((run, i) => ({ ...run, summary: { ...run.summary, ...times(timed[i]!) } }));
}

function times(turns: readonly TurnReport[]) {
  const ttft = (list: readonly TurnReport[]) => summarise(list.map((turn) => turn.ttft_ms));
  return {
    ttft_ms: ttft(turns),
    ttft_first_turn_ms: ttft(turns.filter(({ turn }) => turn === 1)),
    ttft_later_turns_ms: ttft(turns.filter(({ turn }) => turn > 1)),
    tpot_ms: summarise(turns.flatMap(({ tpot_ms }) => (tpot_ms === null ? [] : [tpot_ms]))),
    latency_ms: summarise(turns.map(({ latency_ms }) => latency_ms)),
  };
}
