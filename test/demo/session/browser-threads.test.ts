/** How an engine thread in a browser ends, with a fake worker. */
import { afterEach, expect, test, vi } from 'vitest';
import { GOODBYE } from '../../../src/platform/browser/worker.ts';
import { browserPlatform } from '../../../src/platform/browser.ts';

class FakeWorker extends EventTarget {
  static made: FakeWorker[] = [];
  ended = 0;

  constructor() {
    super();
    FakeWorker.made.push(this);
  }

  postMessage(): void {}

  terminate(): void {
    this.ended++;
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
});

test.each([
  ['an error', Object.assign(new Event('error'), { message: 'boom' }), 'boom', 1],
  ['a message that cannot be read', new Event('messageerror'), 'a message to it could not be read', 1],
  ['its goodbye', new MessageEvent('message', { data: GOODBYE }), 'it was closed', 0],
])('%s ends an engine thread once and leaves no worker behind', async (_, event, reason, terminated) => {
  vi.stubGlobal('Worker', FakeWorker);
  const thread = await browserPlatform(new Map()).startEngineThread('decode-0');
  const told: string[] = [];
  thread.onExit((why) => told.push(why));
  const worker = FakeWorker.made.at(-1)!;
  worker.dispatchEvent(event);
  worker.dispatchEvent(new MessageEvent('message', { data: GOODBYE }));
  expect(told).toEqual([reason]);
  expect(worker.ended).toBe(terminated);
  thread.port.close();
});

test('a script that was not loaded ends its thread, and the page hears of it', async () => {
  vi.stubGlobal('Worker', FakeWorker);
  let lost = 0;
  const platform = browserPlatform(new Map(), new Map(), () => lost++);
  const told: string[] = [];
  for (const start of [platform.startEngineThread, platform.startStoreThread]) {
    const thread = await start('decode-0');
    thread.onExit((why) => told.push(why));
    const worker = FakeWorker.made.at(-1)!;
    worker.dispatchEvent(new Event('error'));
    expect(worker.ended).toBe(1);
    thread.port.close();
  }
  expect(told).toEqual(Array(2).fill('its script could not be loaded: reload the page'));
  expect(lost).toBe(2);
});
