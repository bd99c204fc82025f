/** Which of a machine's drivers is chosen. */
import { expect, test } from 'vitest';
import { lavapipeManifest } from '../../src/platform/node/drivers.ts';

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
