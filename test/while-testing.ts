/** A resource that the tests of a file or of a `describe` share. */
import { afterAll, beforeAll } from 'vitest';

/** Creates the resource before the first test and closes it after the last. The returned function gives it. */
export function whileTesting<T extends { close(): Promise<void> }>(make: () => Promise<T>): () => T {
  let made: T | undefined;
  beforeAll(async () => {
    made = await make();
  });
  afterAll(() => made?.close());
  return () => made!;
}
