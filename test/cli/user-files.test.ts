/** Output files are replaced whole, and what is not a plain file remains what it is; input files may begin with a mark. */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createTextFile, writeTextFile } from '../../src/cli/node/output-files.ts';
import { textOf } from '../../src/cli/node/user-files.ts';

let folder = '';
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));
const at = (name: string) => path.join(folder, name);
const read = (name: string) => fs.readFileSync(at(name), 'utf8');

it('a file keeps its content until the new one is complete, and its permissions', async () => {
  fs.writeFileSync(at('t.json'), 'old', { mode: 0o640 });
  const file = await createTextFile(at('t.json'));
  file.write('new');
  await file.drained();
  expect(read('t.json')).toBe('old');
  file.write('er');
  await file.close();
  expect(read('t.json')).toBe('newer');
  await writeTextFile(at('t.json'), 'newest');
  expect(read('t.json')).toBe('newest');
  expect(fs.statSync(at('t.json')).mode & 0o777).toBe(0o640);
  expect(fs.readdirSync(folder)).toEqual(['t.json']);
});

it('a file that is discarded leaves the old one as it was, and none where there was none', async () => {
  fs.writeFileSync(at('old'), 'old');
  for (const name of ['old', 'new']) {
    const file = await createTextFile(at(name));
    file.write('half');
    await file.discard();
  }
  expect(fs.readdirSync(folder)).toEqual(['old']);
  expect(read('old')).toBe('old');
});

it('links remain links, and the file that they name is written', async () => {
  fs.writeFileSync(at('file'), 'old');
  fs.symlinkSync('file', at('symbolic'));
  fs.symlinkSync('later', at('dangling'));
  fs.linkSync(at('file'), at('hard'));
  await writeTextFile(at('symbolic'), 'one');
  await writeTextFile(at('dangling'), 'two');
  expect([read('file'), read('hard'), read('later')]).toEqual(['one', 'one', 'two']);
  await writeTextFile(at('hard'), 'three');
  expect(read('file')).toBe('three');
  expect(fs.readlinkSync(at('symbolic'))).toBe('file');
  expect(fs.readdirSync(folder)).toHaveLength(5);
});

it('pipes and devices are written in place', async () => {
  execFileSync('sh', ['-c', 'mkfifo "$0"', at('pipe')]);
  const received = readFile(at('pipe'), 'utf8');
  await writeTextFile(at('pipe'), 'through the pipe');
  expect(await received).toBe('through the pipe');
  expect(fs.statSync(at('pipe')).isFIFO()).toBe(true);
  await writeTextFile('/dev/null', 'gone');
  expect(fs.statSync('/dev/null').isCharacterDevice()).toBe(true);
});

it.runIf(fs.existsSync('/dev/full'))('a failed write names the file and the reason', async () => {
  const wanted = /cannot write \/dev\/full: .*no space.*; give another path/;
  await expect(writeTextFile('/dev/full', 'x')).rejects.toThrow(wanted);
  const file = await createTextFile('/dev/full');
  file.write('x');
  await expect(file.close()).rejects.toThrow(wanted);
});

it('a missing folder is refused, and a standard output that goes to a file keeps what is written around it', async () => {
  await expect(writeTextFile(at('no/such'), '')).rejects.toThrow(/cannot write .*: there is no such file/);
  const out = fs.openSync(at('out'), 'w');
  fs.writeSync(out, 'before ');
  await writeTextFile(`/dev/fd/${out}`, 'given');
  expect(fs.fstatSync(out).ino).toBe(fs.statSync(at('out')).ino);
  fs.closeSync(out);
  // Linux opens the file anew and empties it; macOS goes on where it was.
  expect(read('out')).toMatch(/^(before )?given$/);
});

it('the text of a file is read without the byte order mark at its beginning', async () => {
  fs.writeFileSync(at('config.json'), '\ufeff{"threshold": 64}');
  expect(JSON.parse(await textOf(at('config.json')))).toEqual({ threshold: 64 });
  fs.writeFileSync(at('powershell.json'), '\ufeff{"threshold": 64}\r\n', 'utf16le');
  expect(JSON.parse(await textOf(at('powershell.json')))).toEqual({ threshold: 64 });
  await expect(textOf(at('none.json'))).rejects.toThrow(
    'there is no such file or directory; give another path',
  );
});
