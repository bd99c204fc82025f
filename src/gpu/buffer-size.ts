/** Sizes of buffers: beyond 2^31 bytes, where 32-bit operations wrap. */
export const roundUp = (bytes: number, multiple: number): number => multiple * Math.ceil(bytes / multiple);

/** What a storage or uniform buffer of so many bytes takes: whole vec4s, at least one. */
export const wholeVec4s = (bytes: number): number => Math.max(16, roundUp(bytes, 16));
