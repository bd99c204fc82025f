/** What the tests of a file, or of a `describe`, share. */
import { afterAll, beforeAll } from 'vitest';

/** Makes it before the first of them and closes it after the last; in between it is what the returned function gives. */
export function whileTesting<T extends { close(): Promise<void> }>(make: () => Promise<T>): () => T {
  let made: T | undefined;
  beforeAll(async () => {
    made = await make();
  });
  afterAll(() => made?.close());
  return () => made!;
}
