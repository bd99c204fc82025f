/** A model's files as blobs, which threads share without copying. They were dropped by the user or fetched. */
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../types.ts';

/** Content by file name. */
export type ModelFiles = ReadonlyMap<string, Blob>;

export function blobSource(location: string, files: ModelFiles): FileSource {
  return {
    location,
    async readText(name) {
      return (await files.get(name)?.text()) ?? null;
    },
    async size(name) {
      return files.get(name)?.size ?? null;
    },
    async readBytes(name, offset, length) {
      const part = files.get(name)?.slice(offset, offset + length);
      try {
        if (part?.size === length) return new Uint8Array(await part.arrayBuffer());
      } catch (error) {
        throw new ModelError(`${location}/${name} can no longer be read: drop the directory again`, {
          cause: error,
        });
      }
      throw new ModelError(
        `${location}/${name} ends before byte ${offset + length}: it is truncated or does not exist`,
      );
    },
  };
}
