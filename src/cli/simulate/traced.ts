/** What each turn went through, for --trace-out (the first arm) and --html (one turn of each arm): of the first seed. */
import type { RunConfig } from '../../config/run.ts';
import type { Span } from '../../measure/spans.ts';
import { TraceWriter } from '../../measure/trace.ts';
import { TimelineKeeper, type TurnTimeline } from '../../measure/turn-timeline.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import type { CliDeps, TextFile } from '../deps.ts';

/** A page shows one turn of so many at most: following more takes longer than the picture is worth. */
const MOST_TURNS = 20_000;

type Watching = Pick<SimulationWorld, 'onSpan' | 'onTurnEnd'>;

export class SimulationTraces {
  readonly #file: TextFile | null;
  readonly #writer: TraceWriter | null;
  readonly #drawn: boolean;
  /** By arm. */
  readonly #keepers: (TimelineKeeper | null)[] = [];

  private constructor(file: TextFile | null, about: Record<string, string>, drawn: boolean) {
    this.#file = file;
    this.#writer = file && new TraceWriter({ write: (text) => file.write(text), originMs: 0, about });
    this.#drawn = drawn;
  }

  /** Throws ConfigError for a file that cannot be written. */
  static async open(
    { traceOut, html, model }: Pick<RunConfig, 'traceOut' | 'html' | 'model'>,
    costs: string,
    turns: number,
    deps: CliDeps,
  ): Promise<SimulationTraces> {
    const file = traceOut === null ? null : await deps.createTextFile(traceOut);
    const about = {
      program: `kvferry ${deps.version}`,
      model,
      clocks: `simulated: times are those of ${costs}`,
    };
    return new SimulationTraces(file, about, html !== null && turns <= MOST_TURNS);
  }

  /** For the next arm; told of nothing where nobody wants to know. */
  arm(label: string): Watching {
    const writer = this.#keepers.length === 0 ? this.#writer : null;
    const keeper = this.#drawn ? new TimelineKeeper() : null;
    this.#keepers.push(keeper);
    if (!writer && !keeper) return {};
    return {
      onSpan: (span: Span) => {
        writer?.add(span);
        keeper?.add(span);
      },
      onTurnEnd: ({ conversationId, turn, prompt }) =>
        keeper?.turnEnded(label, {
          conversation_id: conversationId,
          turn,
          pulled_tokens: prompt.pulledTokens,
        }),
    };
  }

  /** Resolves when what was written so far need not be kept. */
  async drained(): Promise<void> {
    await this.#file?.drained();
  }

  /** One turn of each arm; null: none was followed. */
  get timelines(): readonly (TurnTimeline | null)[] {
    return this.#keepers.map((keeper) => keeper?.timeline ?? null);
  }

  async close(): Promise<void> {
    this.#writer?.end();
    await this.#file?.close();
  }
}
