/** The race: the same turn three times each way, one after the other. P computes again what D generated, or pulls it. */
import { median } from 'simple-statistics';
import { messageOf } from '../../../../src/errors.ts';
import type { Race, RaceLane } from '../../../../src/recording/experiments.ts';
import type { Message } from '../../../../src/workload/types.ts';
import { Conversation } from '../conversation/conversation.ts';
import { type Measuring, RUNS } from './measuring.ts';

type Turn = Awaited<ReturnType<Conversation['ask']>>;

const LANES = ['recompute', 'pull'] as const;
type LaneName = (typeof LANES)[number];

const idleLane: RaceLane = {
  phase: 'waiting',
  startedMs: null,
  ttftMs: null,
  stagesMs: {},
  pulledTokens: 0,
  computedTokens: 0,
  bytesPulled: 0,
  answer: '',
};

export interface RaceDeps extends Measuring {
  /** The conversation so far; the last message is the assistant's. */
  history: readonly Message[];
  question: string;
}

/** Leaves the engines empty and in the last lane's mode; configure them afterwards. Throws the engines' errors. */
export async function runRace(deps: RaceDeps): Promise<void> {
  const { engines, settings, history, question, signal, emit, now } = deps;
  let race: Race = { question, historyTokens: 0, recompute: idleLane, pull: idleLane, error: null };
  const measured: Record<LaneName, Turn[]> = { recompute: [], pull: [] };
  const show = (change: Partial<Race>) => {
    race = { ...race, ...change };
    emit({ kind: 'race', atMs: now(), race });
  };
  show({});
  try {
    for (let run = 0; run < RUNS; run++) {
      // Alternates, so that other load on the machine affects both ways equally.
      for (const lane of run % 2 === 0 ? LANES : LANES.toReversed()) await runLane(lane);
    }
    for (const lane of LANES) show({ [lane]: { ...race[lane], phase: 'done' } });
  } catch (error) {
    show({ error: messageOf(error) });
    for (const lane of LANES) await engines.running?.recorder.endConversation(`race-${lane}`).catch(() => {});
    throw error;
  }

  async function runLane(lane: LaneName): Promise<void> {
    const showLane = (change: Partial<RaceLane>) => show({ [lane]: { ...race[lane], ...change } });
    showLane({ phase: 'preparing' });
    // P keeps nothing, so that all of the history is either pulled or computed.
    await engines.configure(settings, {
      mode: lane === 'pull' ? 'bidirectional' : 'unidirectional',
      prefixCaching: false,
      recomputeThreshold: 0,
      costProfile: null,
    });
    const { recorder } = engines.running!;
    const conversation = new Conversation(`race-${lane}`);
    const lastQuestion = history.findLastIndex(({ role }) => role === 'user');
    conversation.resume(history.slice(0, lastQuestion));
    // D generates the last answer again, so that it holds KV of its own.
    const before = await conversation.ask(recorder, settings, history[lastQuestion]!.content, signal);
    const historyTokens = before.promptTokenIds.length + before.outputTokenIds.length;
    show({ historyTokens, [lane]: { ...race[lane], phase: 'running', startedMs: now() } });
    measured[lane].push(await conversation.ask(recorder, settings, question, signal));
    const runsMs = measured[lane].map(({ ttftMs }) => ttftMs);
    const ttftMs = median(runsMs);
    // Reports the stages of the run whose time is nearest to the median.
    const turn = nearest(measured[lane], ttftMs);
    showLane({
      phase: 'waiting',
      ttftMs,
      runsMs,
      stagesMs: { ...turn.stagesMs },
      pulledTokens: turn.prompt.pulledTokens,
      computedTokens: turn.prompt.computedTokens,
      bytesPulled: turn.transfer.dToP?.bytes ?? 0,
      answer: turn.text,
    });
    await recorder.endConversation(conversation.id);
  }
}

const nearest = (turns: readonly Turn[], ttftMs: number): Turn =>
  turns.reduce((best, turn) =>
    Math.abs(turn.ttftMs - ttftMs) < Math.abs(best.ttftMs - ttftMs) ? turn : best,
  );
