/**
 * Timelines for --trace-out (the first arm) and --html (one turn per arm). Simulates the first seed once more with every
 * stage reported, so that reports do not depend on these options.
 */
import type { RunConfig } from '../../config/run.ts';
import { formatSeconds } from '../../measure/format.ts';
import { TraceWriter } from '../../measure/spans/trace.ts';
import { TimelineKeeper, type TurnTimeline } from '../../measure/spans/turn-timeline.ts';
import { type SimulationWorld, simulateOnce } from '../../simulate/run.ts';
import type { CliDeps, CommandContext, TextFile } from '../deps.ts';
import type { Progress } from '../output/progress.ts';
import type { PreparedSimulation } from './prepared.ts';

/** No timeline for longer loads: following more turns takes too long for one picture. */
const MOST_TURNS = 20_000;

/** One turn's timeline per arm; null if the arm was not followed. */
export async function followTurns(
  config: RunConfig,
  { planned, workload, world }: PreparedSimulation,
  { deps, signal }: CommandContext,
  progress: Progress,
): Promise<(TurnTimeline | null)[]> {
  const file = config.traceOut === null ? null : await deps.createTextFile(config.traceOut);
  const writer = file && writerTo(file, config, planned.costs.name, deps);
  const drawn = config.html !== null && workload.turns <= MOST_TURNS;
  const timelines: (TurnTimeline | null)[] = [];
  try {
    for (const [i, arm] of planned.arms.entries()) {
      const keeper = drawn ? new TimelineKeeper() : null;
      const written = i === 0 ? writer : null;
      if (keeper || written) {
        progress.begin(`${arm.label}, span by span`, workload.turns);
        const onProgress = async (done: number, ms: number): Promise<void> => {
          progress.update(done, formatSeconds(ms));
          await file?.drained();
        };
        await simulateOnce(arm, watched(world(signal, onProgress), arm.label, keeper, written), config.seed);
        progress.end();
      }
      timelines.push(keeper?.timeline ?? null);
    }
  } finally {
    progress.end();
    writer?.end();
    await file?.close();
  }
  return timelines;
}

const watched = (
  world: SimulationWorld,
  label: string,
  keeper: TimelineKeeper | null,
  writer: TraceWriter | null,
): SimulationWorld => ({
  ...world,
  onSpan(span) {
    writer?.add(span);
    keeper?.add(span);
  },
  onTurnEnd({ conversationId, turn, prompt }) {
    const ended = { conversation_id: conversationId, turn, pulled_tokens: prompt.pulledTokens };
    keeper?.turnEnded(label, ended);
  },
});

const writerTo = (
  file: TextFile,
  { model }: Pick<RunConfig, 'model'>,
  costs: string,
  { version }: Pick<CliDeps, 'version'>,
): TraceWriter =>
  new TraceWriter({
    write: (text) => file.write(text),
    originMs: 0,
    about: { program: `kvferry ${version}`, model, clocks: `simulated: times are those of ${costs}` },
  });
