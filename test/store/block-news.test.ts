import { expect, it } from 'vitest';
import { BlockNews, type StoreCell } from '../../src/store/block-news.ts';

const cell = (id: number, key: string, state: StoreCell['state'] = 'ready'): StoreCell => ({
  id,
  key,
  state,
});

it('BlockNews returns everything at first and to a caller that missed a look, otherwise the changes', () => {
  const store = new BlockNews();
  const first = store.news(0, [cell(1, 'a'), cell(2, 'b')], ['x']);
  expect(first).toEqual({
    revision: 1,
    whole: true,
    memory: { changed: [cell(1, 'a'), cell(2, 'b')], gone: [] },
    folder: { came: ['x'], gone: [] },
  });
  // One cell is being read, one is replaced by a new one; one block is gone from each tier.
  const now = [cell(1, 'a', 'read'), cell(3, 'c')];
  expect(store.news(first.revision, now, ['y'])).toEqual({
    revision: 2,
    whole: false,
    memory: { changed: now, gone: [2] },
    folder: { came: ['y'], gone: ['x'] },
  });
  expect(store.news(2, now, ['y'])).toMatchObject({ whole: false, memory: { changed: [], gone: [] } });
  expect(store.news(2, now, ['y'])).toMatchObject({
    whole: true,
    memory: { changed: now },
    folder: { came: ['y'] },
  });
  expect(store.news(4, [], null)).toMatchObject({ whole: false, memory: { gone: [1, 3] }, folder: null });
});
