/** Pools of models whose KV cache groups each take blocks. */
import { expect, it } from 'vitest';
import { settingsOf } from '../../../demo/src/lessons/begin.ts';
import { lessonList } from '../../../demo/src/lessons/list.ts';
import { checkedSettings, fromHash, toHash } from '../../../demo/src/session/hash.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';

it('a model with sliding windows gets larger pools, unless the address or its lesson sets them', () => {
  const pools = (hash: string) => {
    const { pBlocks, dBlocks } = fromHash(hash).settings;
    return [pBlocks, dBlocks];
  };
  expect(pools('')).toEqual([64, 64]);
  expect(pools('#model=tiny-hybrid')).toEqual([256, 256]);
  expect(pools('#model=tiny-hybrid&dBlocks=80')).toEqual([256, 80]);
  expect(pools('#lesson=10')).toEqual([256, 256]);
  expect(pools('#lesson=10&model=recall')).toEqual([256, 256]);
});

it.each(['#model=tiny-hybrid', '#model=tiny-hybrid&pBlocks=64', '#lesson=10', '#dBlocks=64&lesson=10'])(
  'the address %s is read and written the same',
  (hash) => {
    expect(toHash(fromHash(hash).settings, '')).toBe(hash);
  },
);

it('another model changes pools of the default size only', () => {
  const hybrid = checkedSettings({ ...defaultSettings, dBlocks: 100 }, { model: 'tiny-hybrid' });
  expect(hybrid).toMatchObject({ pBlocks: 256, dBlocks: 100 });
  expect(checkedSettings(hybrid, { model: 'recall' })).toMatchObject({ pBlocks: 64, dBlocks: 100 });
  expect(checkedSettings(hybrid, { ttl: 5 })).toMatchObject({ pBlocks: 256, dBlocks: 100 });
});

it("a lesson gets the pools of its model, or of the user's own", () => {
  const begun = (number: number, model: string) =>
    settingsOf(lessonList.find((lesson) => lesson.number === number)!, { ...defaultSettings, model });
  // Lesson 1 brings a model, lesson 9 does not.
  expect(begun(1, 'gemma-3-270m')).toMatchObject({ model: 'recall', pBlocks: 64, dBlocks: 64 });
  expect(begun(9, 'gemma-3-270m')).toMatchObject({ model: 'gemma-3-270m', pBlocks: 256, dBlocks: 256 });
});
