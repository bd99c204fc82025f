/** Dawn in Node. The addon is loaded on first use, in the thread that calls. */

/** Dawn's instance must outlive its devices: kept for as long as the thread. */
let instance: GPU | null = null;

export async function createNodeGpu(): Promise<GPU> {
  if (instance) return instance;
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  const adapter = process.env.KVFERRY_DAWN_ADAPTER;
  // Dawn rounds timestamps to about 0.1 ms, for fear of web pages.
  const options = ['disable-dawn-features=timestamp_quantization'];
  instance = create(adapter ? [...options, `adapter=${adapter}`] : options);
  return instance;
}
