/** Node with one shader changed: to see that what it computes is checked. */
import { expect } from 'vitest';
import { nodePlatform } from '../../src/platform/node.ts';
import type { Platform } from '../../src/platform/types.ts';

/** `from` must be in the shader. */
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
