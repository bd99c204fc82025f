import { expect, it, vi } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { recordingSchema, type SessionEvent } from '../../src/recording/events.ts';
import { startRecording } from '../../src/recording/recording.ts';
import { fakeWorld } from '../cli/fake.ts';
import { FakeCluster } from '../cli/fake-cluster.ts';

const started = (events: readonly SessionEvent[]) =>
  events.flatMap((event) => (event.kind === 'turn_started' ? [event] : []));

it('each mode of a recorded run restarts its conversations, and the same turns of two modes form a race', async () => {
  const world = fakeWorld();
  const modes = ['--mode', 'bidirectional,unidirectional'];
  expect(await main(['run', ...modes, '--record', 'r.json'], world.deps)).toBe(0);
  const { events } = recordingSchema.parse(JSON.parse(world.files.get('r.json')!));
  const numbers = Array.from({ length: 12 }, (_, i) => i + 1);
  const turns = started(events);
  expect(turns.map(({ mode, turn }) => [mode, turn])).toEqual(
    ['bidirectional', 'unidirectional'].flatMap((mode) => numbers.map((turn) => [mode, turn])),
  );
  // The previous mode's conversation does not count as an edited history.
  for (const { turn, differsAt } of turns) if (turn === 1) expect(differsAt).toBeUndefined();
  const ended = events.flatMap((event) => (event.kind === 'turn_ended' ? [event.result.turn] : []));
  expect(ended).toEqual([...numbers, ...numbers]);
  const races = events.filter(({ kind }) => kind === 'race');
  expect(races).toHaveLength(11);
  expect(races.at(-1)).toMatchObject({ race: { question: 'What do you know about me?' } });
});

it('an interrupted run ends with a valid recording of everything until then', async () => {
  const world = fakeWorld();
  const { sleep } = systemClock;
  let asleep = 0;
  const sleeping = vi.spyOn(systemClock, 'sleep').mockImplementation((ms, signal) => {
    asleep++;
    return sleep(ms, signal).finally(() => asleep--);
  });
  world.interruptAt('unidirectional: 12 turns');
  const modes = ['--mode', 'unidirectional,bidirectional'];
  expect(await main(['run', ...modes, '--record', 'r.json'], world.deps)).toBe(130);
  // Nothing polls the blocks any more, so the program can end.
  await expect.poll(() => asleep).toBe(0);
  sleeping.mockRestore();
  const { events } = recordingSchema.parse(JSON.parse(world.files.get('r.json')!));
  expect(started(events).filter(({ mode }) => mode === 'unidirectional')).toHaveLength(12);
  expect(started(events).filter(({ mode }) => mode === 'bidirectional')).toHaveLength(0);
});

it('a turn that is rewound and served again, as in an audit, is recorded once', async () => {
  const config = parseRunConfig({ model: 'nano' });
  const cluster = new FakeCluster(clusterOptions(config, presetArchitecture('nano'), true), {});
  const recorded = startRecording(cluster, config);
  const ask = async (...said: string[]) => {
    const messages = said.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content }));
    for await (const _ of recorded.cluster.generate({ conversationId: 'a', messages }));
  };
  await ask('one');
  await recorded.cluster.rewind('a');
  await ask('one');
  await ask('one', 'x', 'two');
  const events = await recorded.end();
  expect(started(events).map(({ turn }) => turn)).toEqual([1, 2]);
  expect(events.filter(({ kind }) => kind === 'turn_ended')).toHaveLength(2);
});
