/** Which of a machine's drivers is chosen. */
import { afterEach, expect, test, vi } from 'vitest';
import { driverAbsence, lavapipeManifest } from '../../src/platform/node/drivers.ts';

const { platform } = process;
const pretend = (value: string) => Object.defineProperty(process, 'platform', { value });
afterEach(() => {
  pretend(platform);
  vi.doUnmock('node:child_process');
  vi.resetModules();
});

test.each([
  ['its own, even if one for 32-bit programs is there too', ['lvp_icd.i686.json', 'lvp_icd.x86_64.json'], 1],
  ['one that names no processor', ['intel_icd.json', 'lvp_icd.json'], 1],
  ['none if all are for other processors', ['lvp_icd.i686.json', 'lvp_icd.aarch64.json'], null],
])("lavapipe's manifest for a processor is %s", (_, files, chosen) => {
  expect(lavapipeManifest(files, 'x64')).toBe(chosen === null ? undefined : files[chosen]);
});

test("the first manifest is tried if the processor's name in manifests is not known", () => {
  expect(lavapipeManifest(['readme', 'lvp_icd.loongarch64.json'], 'loong64')).toBe(
    'lvp_icd.loongarch64.json',
  );
});

test.each(['darwin', 'win32'])('on %s only the system is asked, and its answer is given', async (other) => {
  pretend(other);
  expect(driverAbsence('system')).toBe(null);
  expect(driverAbsence('lavapipe')).toBe('kvferry uses it on Linux only');
  expect(driverAbsence('swiftshader')).toBe('kvferry has it for Linux x64 only');
  const probed: unknown[] = [];
  const execFile = (_: string, args: unknown[], __: unknown, done: (error: null, out: object) => void) => {
    probed.push(args[1]);
    done(null, { stdout: '{"adapter":null,"error":"Dawn accepts no adapter of this driver"}\n' });
  };
  vi.doMock('node:child_process', () => ({ execFile }));
  // A process chooses its adapter once.
  vi.resetModules();
  const { useAdapter } = await import('../../src/platform/node/adapters.ts');
  await expect(useAdapter('auto')).rejects.toThrow(
    'no adapter for --adapter auto: Dawn accepts no adapter of this driver; run `kvferry doctor` to see what was tried',
  );
  expect(probed).toEqual(['system']);
});
