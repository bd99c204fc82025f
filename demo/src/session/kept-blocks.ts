/** Deletes the blocks that a store kept in the browser's files. */

/** Deletes the directory with the blocks of all models. Rejects if the browser keeps no files for this page. */
export async function removeBlocks(directory: string): Promise<void> {
  const root = await navigator.storage.getDirectory().catch((cause) => {
    throw new Error('This browser keeps no files for this page, so there is no kept KV to delete.', {
      cause,
    });
  });
  try {
    await root.removeEntry(directory, { recursive: true });
  } catch (error) {
    // The directory did not exist.
    if (!(error instanceof DOMException) || error.name !== 'NotFoundError') throw error;
  }
}
