/** The Node platform with one shader changed, to test that its wrong results are detected. */
import { expect } from 'vitest';
import { nodePlatform } from '../../src/platform/node.ts';
import type { Platform } from '../../src/platform/types.ts';

/** Replaces every `from` in the named shader by `to`; the shader must contain `from`. */
export function withShader(name: string, from: string, to: string, platform = nodePlatform): Platform {
  return {
    ...platform,
    async readShader(wanted) {
      const text = await platform.readShader(wanted);
      if (wanted !== name) return text;
      expect(text).toContain(from);
      return text.replaceAll(from, to);
    },
  };
}
