/** Rounds up to a multiple. Works beyond 2^31 bytes, where 32-bit operations would wrap. */
export const roundUp = (bytes: number, multiple: number): number => multiple * Math.ceil(bytes / multiple);

/** The size of a storage or uniform buffer for this many bytes: whole vec4s, at least one. */
export const wholeVec4s = (bytes: number): number => Math.max(16, roundUp(bytes, 16));

/** Bytes of the largest buffer that can be bound whole on this device. */
export const mostBound = ({ limits }: GPUDevice): number =>
  Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
