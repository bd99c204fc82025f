/** A cluster that is recorded while something drives it: everything is told as on the page, and the events are kept. */
import type { Mode } from '../config/modes.ts';
import type { RunConfig } from '../config/run.ts';
import type { Cluster } from '../fleet/types.ts';
import { systemClock } from '../platform/clock.ts';
import type { GenerateRequest } from '../router/turn-types.ts';
import type { SessionEvent } from './events.ts';
import { RecordedRace } from './recorded-race.ts';
import { Recorder } from './recorder.ts';

/** Blocks are looked at so often, and whenever something happens. */
const POLL_MS = 50;

export interface RecordedCluster {
  /** Drive this one. */
  cluster: Cluster;
  /** Of what happens from now on nothing is told. */
  cut(): void;
  /** Ends the recording; the cluster goes on. */
  end(): Promise<readonly SessionEvent[]>;
}

export function startRecording(cluster: Cluster, config: RunConfig): RecordedCluster {
  const events: SessionEvent[] = [];
  const originMs = systemClock.now();
  const now = () => systemClock.now() - originMs;
  const race = new RecordedRace((event) => events.push(event));
  const emit = (event: SessionEvent) => {
    events.push(event);
    race.hear(event);
  };
  const stop = new AbortController();
  const recorder = new Recorder(cluster, emit, systemClock, originMs);
  const finished = new Set<string>();
  /** Whose last turn was taken back, as an audit does: what is asked next is that turn once more. */
  const takenBack = new Set<string>();
  emit({ kind: 'settings', atMs: now(), settings: settingsOf(cluster, config) });
  emit({ kind: 'status', atMs: now(), phase: 'ready', message: 'Ready', progress: null });
  const polling = (async () => {
    while (!stop.signal.aborted) {
      await recorder.poll();
      await systemClock.sleep(POLL_MS, stop.signal);
    }
  })();

  const own: Partial<Cluster> = {
    generate(request) {
      const { conversationId } = request;
      if (conversationId !== null && takenBack.delete(conversationId))
        return recorder.again(conversationId, request);
      return recorder.generate(request, { question: questionOf(request), edited: false });
    },
    async rewind(conversation, prefillKeeps) {
      await cluster.rewind(conversation, prefillKeeps);
      takenBack.add(conversation);
    },
    // What was said stays in sight until the next mode begins.
    async endConversation(conversation) {
      finished.add(conversation);
      await cluster.endConversation(conversation);
    },
    async setMode(mode: Mode) {
      await cluster.setMode(mode);
      // In the next mode they begin anew: their turns count from 1 again.
      for (const conversation of finished) await recorder.endConversation(conversation);
      finished.clear();
      emit({ kind: 'settings', atMs: now(), settings: { mode } });
      await recorder.poll();
    },
  };
  const recorded = new Proxy(cluster, {
    get(target, key) {
      const value: unknown = Reflect.get(key in own ? own : target, key, target);
      return typeof value === 'function' ? value.bind(key in own ? own : target) : value;
    },
  });
  const cut = (): void => {
    stop.abort();
    recorder.detach();
  };
  return {
    cluster: recorded,
    cut,
    async end() {
      await recorder.poll();
      cut();
      await polling;
      race.end(now());
      return events;
    },
  };
}

function questionOf({ messages, promptTokenIds }: GenerateRequest): string {
  return messages?.at(-1)?.content ?? `${promptTokenIds?.length ?? 0} tokens`;
}

/** Those of the run's settings that the page shows. */
const SHOWN = [
  ...(['model', 'seed', 'prefixCaching', 'blockSize', 'threshold', 'link', 'ttl', 'tokenCheck'] as const),
  ...(['weightDtype', 'kvDtype', 'temperature', 'maxTokens'] as const),
];

const settingsOf = ({ mode, settings }: Cluster, config: RunConfig): Record<string, unknown> => ({
  ...Object.fromEntries(SHOWN.map((key) => [key, config[key]])),
  mode,
  pBlocks: settings.prefill.numBlocks,
  dBlocks: settings.decode.numBlocks,
});
