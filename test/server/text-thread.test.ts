/** Long texts are tokenised in another thread, to the same ids. */
import { EventEmitter } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { loadTokenizer } from '../../src/model/load.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { startTextThread } from '../../src/platform/node/threads.ts';
import { PromptBuilder } from '../../src/router/prompts.ts';
import { TextThread } from '../../src/server/text/text-thread.ts';
import { SHORT_TEXT, textTools } from '../../src/server/text/text-tools.ts';

const recall = loadTokenizer('recall', directorySource('models/recall'));
const open = new AbortController().signal;

/** Answers when the test says so; each character is a token. */
class FakeThread extends EventEmitter {
  readonly texts: string[] = [];
  terminated = false;

  postMessage(text: string): void {
    this.texts.push(text);
  }

  answer(): void {
    this.emit(
      'message',
      Uint32Array.from([...this.texts.at(-1)!], (character) => character.charCodeAt(0)),
    );
  }

  unref(): void {}

  async terminate(): Promise<void> {
    this.terminated = true;
    this.emit('exit', 1);
  }
}

function fakeThreads() {
  const started: FakeThread[] = [];
  const thread = new TextThread(() => {
    const fake = new FakeThread();
    started.push(fake);
    return fake as unknown as Worker;
  });
  return { started, thread };
}

describe('the queue of long texts', () => {
  test('encodes one text at a time, in order, and starts its thread at the first', async () => {
    const { started, thread } = fakeThreads();
    expect(started).toHaveLength(0);
    const both = [thread.encode('ab', open), thread.encode('c', open)];
    expect(started[0]!.texts).toEqual(['ab']);
    started[0]!.answer();
    expect(await both[0]).toEqual([97, 98]);
    expect(started[0]!.texts).toEqual(['ab', 'c']);
    started[0]!.answer();
    expect(await both[1]).toEqual([99]);
    expect(started).toHaveLength(1);
  });

  test('skips texts whose client has left, and drops the result of one in progress', async () => {
    const { started, thread } = fakeThreads();
    const [first, second] = [new AbortController(), new AbortController()];
    const left = [thread.encode('a', first.signal), thread.encode('b', second.signal)];
    const last = thread.encode('c', open);
    for (const { abort } of [first, second].map((c) => ({ abort: () => c.abort(new Error('gone')) })))
      abort();
    for (const each of left) await expect(each).rejects.toThrow('gone');
    started[0]!.answer();
    started[0]!.answer();
    expect(await last).toEqual([99]);
    expect(started[0]!.texts).toEqual(['a', 'c']);
    await expect(thread.encode('d', first.signal)).rejects.toThrow('gone');
  });

  test('is bounded: a text beyond the limit gets 503', async () => {
    const { thread } = fakeThreads();
    const waiting = Array.from({ length: 33 }, () =>
      thread.encode('a', new AbortController().signal).catch(() => null),
    );
    await expect(thread.encode('b', open)).rejects.toMatchObject({ status: 503 });
    await thread.close();
    expect(await Promise.all(waiting)).toEqual(Array(33).fill(null));
    await expect(thread.encode('b', open)).rejects.toMatchObject({ status: 503 });
  });

  test('fails all its texts if its thread ends, and starts another for the next text', async () => {
    const { started, thread } = fakeThreads();
    const lost = [thread.encode('a', open), thread.encode('b', open)];
    started[0]!.emit('error', new Error('out of memory'));
    started[0]!.emit('exit', 1);
    for (const each of lost) await expect(each).rejects.toThrow(/thread .* ended: out of memory/);
    const next = thread.encode('c', open);
    started[1]!.answer();
    expect(await next).toEqual([99]);
  });

  test('fails a text if no thread can be started, and tries again for the next', async () => {
    const fake = new FakeThread();
    const start = vi.fn<() => Worker>().mockReturnValue(fake as unknown as Worker);
    start.mockImplementationOnce(() => {
      throw new Error('EAGAIN');
    });
    const thread = new TextThread(start);
    await expect(thread.encode('a', open)).rejects.toThrow('could not be started: EAGAIN');
    const next = thread.encode('c', open);
    fake.answer();
    expect(await next).toEqual([99]);
  });
});

describe('the real text thread', () => {
  const thread = new TextThread(() => startTextThread('recall'));
  afterEach(() => thread.close());

  test('gives long texts the ids that the local tokenizer would, which encodes only short ones', async () => {
    const model = await recall;
    const { tokenizer, chat } = model;
    const tools = textTools(model, (text, signal) => thread.encode(text, signal));
    const long = `<|user|>${'Finn met a fox,  é日\n\n'.repeat(SHORT_TEXT / 10)}<|end|>`;
    const messages = [{ role: 'user', content: long }];
    const prompt = chat.renderPrompt(messages, 'generation_prompt');
    const [longIds, promptIds, shortIds] = [long, prompt, 'short'].map((text) => tokenizer.encode(text));
    const here = vi.spyOn(tokenizer, 'encode');
    expect(await tools.encode(long, open)).toEqual(longIds);
    expect(await tools.encodeMessages(messages, 'generation_prompt', open)).toEqual(promptIds);
    const prompts = new PromptBuilder(model);
    const encode = (text: string) => tools.encode(text, open);
    expect(await prompts.build({ messages, encode }, null)).toEqual(promptIds);
    expect(await prompts.build({ promptText: long, encode }, null)).toEqual(longIds);
    expect(here).not.toHaveBeenCalled();
    expect(await tools.encode('short', open)).toEqual(shortIds);
    expect(here).toHaveBeenCalledWith('short');
  });
});
