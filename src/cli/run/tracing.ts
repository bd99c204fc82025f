/** Follows a run's spans for --trace-out and --gantt. Only keeps the spans of running turns. */
import type { RunConfig } from '../../config/run.ts';
import type { Cluster } from '../../fleet/types.ts';
import { ganttLines } from '../../measure/spans/gantt.ts';
import { routerSpan, SERVED_AGAIN, type Span } from '../../measure/spans/spans.ts';
import { TraceWriter } from '../../measure/spans/trace.ts';
import { turnName } from '../../measure/spans/turn-key.ts';
import { systemClock } from '../../platform/clock.ts';
import { modelledLinks } from '../../report/throttled.ts';
import type { CliDeps, TextFile } from '../deps.ts';

export interface Tracing {
  /** Call when a mode begins; ends the previous one. */
  mode(name: string): void;
  /** Ends the trace file, and returns the lines of the Gantt chart (none without --gantt). Idempotent. */
  end(): Promise<string[]>;
}

/** Most turns whose spans are kept at once, including late spans of ended turns. */
const MOST_TURNS = 256;

type TracedConfig = Pick<RunConfig, 'traceOut' | 'gantt' | 'model' | 'link' | 'fleet'>;

/** null if neither option is given. */
export async function followSpans(
  cluster: Cluster,
  config: TracedConfig,
  deps: CliDeps,
): Promise<Tracing | null> {
  const { traceOut, gantt } = config;
  if (traceOut === null && gantt === false) return null;
  const file = traceOut === null ? null : await deps.createTextFile(traceOut);
  const writer = file && writerTo(file, config, cluster, deps);
  const drawn = gantt === false ? null : new TurnKeeper(gantt);
  let mode = { name: '', startMs: 0 };
  // Two timestamps per submit and their readback, so that GPU lanes show the device's own times.
  if (writer) await cluster.setTiming('submits');
  const stop = cluster.onSpan((span) => {
    writer?.add(span);
    drawn?.add(span, mode.name);
  });
  const endMode = (): void => {
    if (!mode.name) return;
    const { name, startMs } = mode;
    writer?.add({ ...routerSpan('mode', name, startMs, systemClock.now(), { mode: name }), turns: [] });
  };
  const finish = async (): Promise<string[]> => {
    stop();
    endMode();
    writer?.end();
    try {
      await file?.close();
    } finally {
      // Fails if the cluster has died.
      if (writer) await cluster.setTiming(null);
    }
    return drawn?.lines() ?? [];
  };
  let ended: Promise<string[]> | null = null;
  return {
    mode(name) {
      endMode();
      mode = { name, startMs: systemClock.now() };
    },
    end() {
      ended ??= finish();
      return ended;
    },
  };
}

function writerTo(file: TextFile, config: TracedConfig, cluster: Cluster, deps: CliDeps): TraceWriter {
  const links = modelledLinks({ link: config.link, config });
  return new TraceWriter({
    write: (text) => file.write(text),
    originMs: systemClock.now(),
    about: {
      program: `kvferry ${deps.version}`,
      model: config.model,
      adapter: cluster.info.adapter.name,
      ...(links ? { modelled_link: links } : {}),
      clocks:
        "host: performance.now() of all threads; gpu: the device's timestamps, shifted to the host clock; modelled: the link model",
    },
  });
}

/** Keeps the spans of the requested turn: the last one with its number, or the last one. */
class TurnKeeper {
  readonly #wanted: true | number;
  readonly #spans = new Map<string, Span[]>();
  #latest: { turnId: string; spans: readonly Span[]; ttft: Span; mode: string } | null = null;
  readonly #conversations = new Set<unknown>();

  constructor(wanted: true | number) {
    this.#wanted = wanted;
  }

  add(span: Span, mode: string): void {
    for (const turnId of new Set(span.turns.map((turn) => turn.turnId))) {
      const spans = this.#spans.get(turnId) ?? [];
      spans.push(span);
      this.#spans.set(turnId, spans);
      // The router sends it when the turn has ended, as the turn's last span.
      if (span.name === 'ttft') this.#turnEnded(turnId, span, mode);
    }
    if (this.#spans.size > MOST_TURNS) this.#spans.delete(this.#spans.keys().next().value!);
  }

  lines(): string[] {
    if (!this.#latest) return [];
    const { turnId, spans, ttft, mode } = this.#latest;
    const window = { turnId, acceptedMs: ttft.startMs, firstTokenMs: ttft.endMs };
    const of = { conversation_id: String(ttft.args.conversationId), turn: Number(ttft.args.turn) };
    const which = turnName(of, this.#conversations.size > 1);
    return ganttLines(spans, window, `${which}, ${mode}: what the first token waited for`);
  }

  #turnEnded(turnId: string, ttft: Span, mode: string): void {
    const spans = this.#spans.get(turnId) ?? [];
    this.#spans.delete(turnId);
    const { conversationId, turn, served } = ttft.args;
    // As an audit does; it counts in no figure.
    if (served === SERVED_AGAIN.served) return;
    this.#conversations.add(conversationId);
    if (this.#wanted === true || turn === this.#wanted) this.#latest = { turnId, spans, ttft, mode };
  }
}
