/** What this browser lacks to run engines, as a sentence that says how to get it. */

export interface Missing {
  what: 'isolation' | 'webgpu' | 'adapter';
  message: string;
}

/** null when engines can run here. */
export async function whatIsMissing(): Promise<Missing | null> {
  if (!globalThis.crossOriginIsolated) {
    return {
      what: 'isolation',
      message: globalThis.isSecureContext
        ? 'This page was served without the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp, so the engines have no shared memory: use `npm run demo`, or set both headers at your host.'
        : 'This page came over plain HTTP from another machine, so browsers give it neither WebGPU nor shared memory: open it over HTTPS or from localhost.',
    };
  }
  if (!navigator.gpu) {
    return {
      what: 'webgpu',
      message:
        'This browser offers no WebGPU: use Chrome or Edge 113 or newer, Safari 26, or Firefox 141 on Windows; on Linux start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan.',
    };
  }
  const adapter = await navigator.gpu
    .requestAdapter({ powerPreference: 'high-performance' })
    .catch(() => null);
  if (adapter) return null;
  return {
    what: 'adapter',
    message:
      'This browser has WebGPU but found no GPU that it trusts: see chrome://gpu, update the driver, or start Chrome with --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader to compute on the processor.',
  };
}
