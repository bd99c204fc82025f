/**
 * Race and crossover of a recorded run that served the same turns with KV pulled and with KV computed again. Each pair of
 * turns is a race, and all pairs are the chart's points. Measures nothing itself.
 */
import { turnKey } from '../measure/spans/turn-key.ts';
import type { RecordedTurn, SessionEvent } from './events.ts';
import type { Crossover, Race, RaceLane } from './experiments.ts';

/** Each crossover event has all points, so one is sent only when there are this many times as many. Recordings stay linear. */
const MORE_POINTS = 1.1;

type TurnStarted = Extract<SessionEvent, { kind: 'turn_started' }>;
interface Served {
  started: TurnStarted;
  result: RecordedTurn;
}

export class RecordedRace {
  readonly #emit: (event: SessionEvent) => void;
  readonly #started = new Map<string, TurnStarted>();
  #link: string | null = null;
  #races = 0;
  /** Number of races in the last reported crossover. */
  #reportedRaces = 0;
  readonly #served = { bidirectional: new Map<string, Served>(), unidirectional: new Map<string, Served>() };

  constructor(emit: (event: SessionEvent) => void) {
    this.#emit = emit;
  }

  hear(event: SessionEvent): void {
    if (event.kind === 'machine') this.#link = event.machine.link?.name ?? null;
    if (event.kind === 'turn_started') this.#started.set(event.turnId, event);
    if (event.kind !== 'turn_ended') return;
    const started = this.#started.get(event.turnId);
    this.#started.delete(event.turnId);
    if (started?.mode !== 'bidirectional' && started?.mode !== 'unidirectional') return;
    const key = turnKey({ conversation_id: started.conversation, turn: started.turn });
    this.#served[started.mode].set(key, { started, result: event.result });
    const pull = this.#served.bidirectional.get(key);
    const recompute = this.#served.unidirectional.get(key);
    if (!pull || !recompute || pull.result.pulled_tokens === 0) return;
    this.#emit({ kind: 'race', atMs: event.atMs, race: raceOf(pull, recompute, this.#before(started)) });
    this.#races++;
    if (this.#races >= MORE_POINTS * this.#reportedRaces) this.#emitCrossover(event.atMs);
  }

  /** Call at the end of the run. */
  end(atMs: number): void {
    if (this.#reportedRaces < this.#races) this.#emitCrossover(atMs);
  }

  #emitCrossover(atMs: number): void {
    this.#reportedRaces = this.#races;
    this.#emit({ kind: 'crossover', atMs, crossover: this.#crossover() });
  }

  /** Tokens of the conversation before this turn. */
  #before({ mode, conversation, turn }: TurnStarted): number {
    const last = this.#served[mode as 'bidirectional'].get(
      turnKey({ conversation_id: conversation, turn: turn - 1 }),
    );
    return last ? last.result.prompt_tokens + last.result.output_tokens : 0;
  }

  #crossover(): Crossover {
    const points = [...this.#served.bidirectional].flatMap(([key, { result }]) => {
      const recomputed = this.#served.unidirectional.get(key);
      if (!recomputed || result.pulled_tokens === 0) return [];
      return [
        { tokens: result.pulled_tokens, pullMs: result.ttft_ms, recomputeMs: recomputed.result.ttft_ms },
      ];
    });
    points.sort((a, b) => a.tokens - b.tokens);
    const total = 2 * points.length;
    const link = this.#link;
    return { points, done: total, total, crossoverTokens: null, link, running: false, error: null };
  }
}

function raceOf(pull: Served, recompute: Served, historyTokens: number): Race {
  const { question } = pull.started;
  const lane = ({ started, result }: Served): RaceLane => ({
    phase: 'done',
    startedMs: started.atMs,
    ttftMs: result.ttft_ms,
    stagesMs: result.stages_ms,
    pulledTokens: result.pulled_tokens,
    computedTokens: result.computed_tokens,
    bytesPulled: result.transfer.d_to_p.bytes,
    answer: result.text ?? '',
  });
  return { question, historyTokens, recompute: lane(recompute), pull: lane(pull), error: null };
}
