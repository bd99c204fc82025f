/** From a mode's turns to its summary. */
import type { RunReport, SpanRecorderReport, TurnReport } from './report.ts';
import { summarise } from './statistics.ts';
import { turnKey } from './turn-key.ts';

export interface RunFacts {
  firstUseCompilations: number;
  preemptions: number;
  wallMs: number;
  /** By role. */
  peakKvBytes?: { prefill: number; decode: number };
  spanRecorder?: SpanRecorderReport;
}

export function summariseRun(
  mode: RunReport['mode'],
  turns: readonly TurnReport[],
  facts: RunFacts,
): RunReport {
  const sum = (value: (turn: TurnReport) => number): number =>
    turns.reduce((total, turn) => total + value(turn), 0);
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
      first_use_compilations: facts.firstUseCompilations,
      preemptions: facts.preemptions,
      wall_ms: facts.wallMs,
      ...(facts.peakKvBytes ? { peak_kv_bytes: facts.peakKvBytes } : {}),
      ...(facts.spanRecorder ? { span_recorder: facts.spanRecorder } : {}),
    },
  };
}

/** The runs with times over turns that were not audited, in any of them: the modes are compared over the same turns. */
export function withoutAudited(runs: readonly RunReport[]): RunReport[] {
  const audited = new Set(runs.flatMap(({ turns }) => turns.filter(({ audit }) => audit).map(turnKey)));
  if (audited.size === 0) return [...runs];
  return runs.map((run) => {
    const turns = run.turns.filter((turn) => !audited.has(turnKey(turn)));
    return { ...run, summary: { ...run.summary, ...times(turns) } };
  });
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
