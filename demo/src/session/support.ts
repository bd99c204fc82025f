/** What this browser lacks to run engines, with a sentence that says how to fix it. */

import { isFirefox, WITH_WEBGPU } from '../../../src/platform/browser/browsers.ts';

export interface Missing {
  what: 'isolation' | 'webgpu' | 'adapter';
  message: string;
}

/** null if engines can run here. */
export async function whatIsMissing(): Promise<Missing | null> {
  if (!globalThis.crossOriginIsolated) {
    return {
      what: 'isolation',
      message: globalThis.isSecureContext
        ? 'This page was served without the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp, so the engines have no shared memory. Use `npm run demo`, or set both headers on your host.'
        : 'This page came over plain HTTP from another machine, so the browser gives it neither WebGPU nor shared memory. Open it over HTTPS or from localhost.',
    };
  }
  if (!navigator.gpu) {
    return {
      what: 'webgpu',
      message: `This browser has no WebGPU. Use ${WITH_WEBGPU}. On Linux, start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan, or set dom.webgpu.enabled in Firefox’s about:config.`,
    };
  }
  const adapter = await navigator.gpu
    .requestAdapter({ powerPreference: 'high-performance' })
    .catch(() => null);
  if (adapter) return null;
  return {
    what: 'adapter',
    message: `This browser has WebGPU, but found no GPU that it trusts. ${
      isFirefox(navigator.userAgent)
        ? 'See about:support, update the driver, or set gfx.webgpu.ignore-blocklist in about:config, also to compute on the processor with lavapipe.'
        : 'See chrome://gpu, update the driver, or start Chrome with --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader to compute on the processor.'
    }`,
  };
}
