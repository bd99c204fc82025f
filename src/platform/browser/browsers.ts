/** Which browsers run engines (docs/demo.md), and which of them this is. */

export const WITH_WEBGPU =
  'Chrome or Edge 113 or newer, Safari 26, or Firefox 141 (on Macs with Apple silicon 147)';

export const isFirefox = (userAgent: string): boolean => /\bFirefox\//.test(userAgent);
