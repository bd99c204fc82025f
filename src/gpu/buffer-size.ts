/** Sizes of buffers: beyond 2^31 bytes, where 32-bit operations wrap. */
export const roundUp = (bytes: number, multiple: number): number => multiple * Math.ceil(bytes / multiple);

/** What a storage or uniform buffer of so many bytes takes: whole vec4s, at least one. */
export const wholeVec4s = (bytes: number): number => Math.max(16, roundUp(bytes, 16));

/** Bytes of the largest buffer that a shader of this device can be given whole. */
export const mostBound = ({ limits }: GPUDevice): number =>
  Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
