/** Records a cluster while something drives it: produces the same events as on the page, and keeps them. */
import type { Mode } from '../config/modes.ts';
import type { RunConfig } from '../config/run.ts';
import type { Cluster } from '../fleet/types.ts';
import { systemClock } from '../platform/clock.ts';
import type { GenerateRequest } from '../router/turn-types.ts';
import type { SessionEvent } from './events.ts';
import { RecordedRace } from './recorded-race.ts';
import { Recorder } from './recorder.ts';

/** Interval of polling blocks; they are also polled when something happens. */
const POLL_MS = 50;

export interface RecordedCluster {
  /** Drive this one. */
  cluster: Cluster;
  /** Stops recording events from now on. */
  cut(): void;
  /** Ends the recording and returns its events; the cluster keeps running. */
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
  /** Conversations whose last turn was rewound, as an audit does: their next request is the same turn again. */
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
    // The conversation stays visible until the next mode begins.
    async endConversation(conversation) {
      finished.add(conversation);
      await cluster.endConversation(conversation);
    },
    async setMode(mode: Mode) {
      await cluster.setMode(mode);
      // In the next mode conversations start again, and their turns count from 1.
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

/** The run's settings that the page shows. */
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
