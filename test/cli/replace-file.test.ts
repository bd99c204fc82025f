/** Files that are replaced while another program has them open, which Windows refuses. */
import { afterEach, expect, it } from 'vitest';
import { replaceFile } from '../../src/platform/node/replace-file.ts';

const { platform } = process;
const pretend = (value: string) => Object.defineProperty(process, 'platform', { value });
afterEach(() => pretend(platform));

/** Replaces a file whose first `times` renames fail. */
async function replaced(code: string, times: number) {
  let renames = 0;
  const rename = async () => {
    if (renames++ < times) throw Object.assign(new Error(`${code}: rename`), { code });
  };
  const ended = await replaceFile('a', 'b', { rename, sleep: async () => {} }).then(
    () => 'replaced',
    (error: Error) => error.message,
  );
  return { ended, renames };
}

it('on Windows a file in use is tried again, but not for ever', async () => {
  pretend('win32');
  for (const code of ['EPERM', 'EACCES', 'EBUSY'])
    expect(await replaced(code, 3)).toEqual({ ended: 'replaced', renames: 4 });
  expect(await replaced('EPERM', 99)).toEqual({ ended: 'EPERM: rename', renames: 6 });
  expect(await replaced('ENOSPC', 99)).toEqual({ ended: 'ENOSPC: rename', renames: 1 });
});

it('elsewhere an error is final', async () => {
  pretend('linux');
  expect(await replaced('EACCES', 3)).toEqual({ ended: 'EACCES: rename', renames: 1 });
});
