/** READs between engines while others compute: what they take more then, and what they take from steps beside them. */
import { mean, sum } from 'simple-statistics';
import type { Cluster } from '../../fleet/types.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { type Asker, msPerToken, TokensTold } from './asker.ts';
import { CONTEXT } from './beside.ts';

/** Prompts that are handed over while D decodes a long answer. */
const READ_TOKENS = [48, 192];
const LONG_ANSWER = 96;
/** Tokens of each D between two hand-overs: what steps take then is what those beside them are compared with. */
const BETWEEN = 4;

/** A READ of a hand-over, while every D decoded. */
export interface ReadBeside {
  readMs: number;
  bytes: number;
  /** Between two of D's tokens at that time, on average. */
  stepMs: number;
}

/** Of one D, decode steps that followed each other: those that a hand-over came between, or one that none did. */
export interface StepsBeside {
  steps: number;
  ms: number;
  /** Milliseconds in which P was at prompts. */
  prefillMs: number;
  handOvers: number;
}

/** When P computed a prompt, and from then on its hand-over, to D's token. */
interface HandedOver {
  prefillMs: readonly [from: number, to: number];
  toMs: number;
}

interface ReadMeterDeps {
  cluster: Cluster;
  ask: Asker;
  signal: AbortSignal;
  /** Tokens that a request may have. */
  room: number;
}

export class ReadBesideMeter {
  readonly reads: ReadBeside[] = [];
  readonly steps: StepsBeside[] = [];
  /** D that decode meanwhile. */
  readonly decodes: readonly EngineClient[];
  readonly #deps: ReadMeterDeps;

  constructor(decodes: readonly EngineClient[], deps: ReadMeterDeps) {
    this.decodes = decodes;
    this.#deps = deps;
  }

  /** Hand-overs of prompts, one after the other, while every D decodes. `counts`: false for a round that only warms up. */
  async round(counts: boolean): Promise<void> {
    const { ask, cluster, signal, room } = this.#deps;
    const tokens = READ_TOKENS.filter((each) => each < room);
    const answer = Math.min(LONG_ANSWER, room - CONTEXT.near - 1);
    if (tokens.length === 0 || answer < 2) return;
    const told = new TokensTold(this.decodes.length);
    const answers = Promise.all(
      this.decodes.map((engine, i) =>
        ask.engine(engine, CONTEXT.near, answer, [], (count) => told.tell(i, count)),
      ),
    ).finally(() => told.end());
    const seen: (HandedOver & { readMs: number; bytes: number })[] = [];
    const handOvers = (async () => {
      for (let i = 0; await told.more(BETWEEN); i++) {
        signal.throwIfAborted();
        const { final, atMs } = await ask.cluster(cluster, tokens[i % tokens.length]!);
        const { pToD } = final.transfer;
        if (!pToD) return;
        const { prefill = 0, ...stages } = final.stagesMs;
        const before = sum(BEFORE_PREFILL.map((stage) => stages[stage] ?? 0));
        const fromMs = atMs - final.ttftMs + before;
        const { ms, bytes } = pToD;
        seen.push({ readMs: ms, bytes, prefillMs: [fromMs, fromMs + prefill], toMs: atMs });
      }
    })();
    const [decoded] = await Promise.all([answers, handOvers]);
    if (!counts) return;
    const fromMs = Math.max(...decoded.map(({ tokenMs }) => tokenMs[0]!));
    const untilMs = Math.min(...decoded.map(({ tokenMs }) => tokenMs.at(-1)!));
    const stepMs = mean(decoded.map(({ tokenMs }) => msPerToken(tokenMs)));
    const whole = seen.filter(({ toMs }, i) => i > 0 && seen[i - 1]!.toMs >= fromMs && toMs <= untilMs);
    this.reads.push(...whole.map(({ readMs, bytes }) => ({ readMs, bytes, stepMs })));
    for (const { tokenMs } of decoded) {
      const together = tokenMs.filter((ms) => ms >= fromMs && ms <= untilMs);
      this.steps.push(...stepsBeside(together, seen));
    }
  }
}

/** Stages of a turn's TTFT before P computes. */
const BEFORE_PREFILL = ['router', 'queue_p', 'lookup_p', 'schedule_p'];

/** By when an answer's tokens came. What hand-overs came between that were there before its first or after its last is left out. */
function stepsBeside(tokenMs: readonly number[], handed: readonly HandedOver[]): StepsBeside[] {
  const [firstMs, lastMs] = [tokenMs[0]!, tokenMs.at(-1)!];
  const cut = ({ prefillMs: [, fromMs], toMs }: HandedOver): boolean => fromMs < firstMs || toMs > lastMs;
  const groups: (StepsBeside & { last: HandedOver | null; whole: boolean })[] = [];
  for (const [i, toMs] of tokenMs.entries()) {
    const fromMs = tokenMs[i - 1];
    if (fromMs === undefined || toMs <= fromMs) continue;
    const touched = handed.filter((each) => each.prefillMs[1] < toMs && each.toMs > fromMs);
    const prefillMs = handed.reduce((ms, { prefillMs: [from, to] }) => {
      return ms + Math.max(0, Math.min(to, toMs) - Math.max(from, fromMs));
    }, 0);
    const before = groups.at(-1);
    const whole = !touched.some(cut);
    const last = touched.at(-1) ?? null;
    // Whatever a hand-over's steps lost is theirs together, whichever of them lost it.
    if (before?.last && before.last === touched[0]) {
      before.steps++;
      before.ms += toMs - fromMs;
      before.prefillMs += prefillMs;
      before.handOvers += touched.length - 1;
      before.whole &&= whole;
      before.last = last;
    } else groups.push({ steps: 1, ms: toMs - fromMs, prefillMs, handOvers: touched.length, last, whole });
  }
  return groups.filter(({ whole }) => whole).map(({ last: _last, whole: _whole, ...steps }) => steps);
}

interface BesideRead {
  /** More for a READ, beside its wait for the step that D has begun, which takes half of one on average and is simulated. */
  readMs: number;
  /** Of each step beside it. */
  fromStepsMs: number;
}

/** `rowMs`: what one more decoding request adds to a step of the D that it was handed to, of so many. */
export function besideRead(
  aloneMs: (bytes: number) => number,
  { reads, steps }: { reads: readonly ReadBeside[]; steps: readonly StepsBeside[] },
  { rowMs, decodes }: { rowMs: number; decodes: number },
): BesideRead {
  if (reads.length === 0) return { readMs: 0, fromStepsMs: 0 };
  const more = reads.map(({ readMs, bytes, stepMs }) => readMs - aloneMs(bytes) - stepMs / 2);
  const lostMs = lostToHandOver(steps) - rowMs / Math.max(1, decodes);
  return { readMs: Math.max(0, median(more)), fromStepsMs: Math.max(0, lostMs) };
}

/** Of each D's steps, milliseconds, against those before and after with neither prompts nor hand-overs beside them. */
function lostToHandOver(all: readonly StepsBeside[]): number {
  const between = all.filter(({ handOvers }) => handOvers > 0);
  const others = all.filter(({ handOvers }) => handOvers === 0);
  const free = others.filter(({ prefillMs }) => prefillMs === 0);
  if (between.length === 0 || free.length === 0) return 0;
  const stepMs = mean(free.map(({ ms }) => ms));
  const besideP = others.filter(({ prefillMs }) => prefillMs > 0);
  const lostMs = ({ steps, ms }: StepsBeside) => ms - steps * stepMs;
  const toP = sum(besideP.map(lostMs)) / Math.max(1e-6, sum(besideP.map(({ prefillMs }) => prefillMs)));
  const lost = between.map((each) => lostMs(each) - each.prefillMs * toP);
  return sum(lost) / sum(between.map(({ handOvers }) => handOvers));
}
