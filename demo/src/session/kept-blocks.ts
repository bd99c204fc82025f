/** What a store left in this browser's files, as people ask for it: its end. */

/** Of all models. Rejects where the browser keeps no files for this page. */
export async function removeBlocks(directory: string): Promise<void> {
  const root = await navigator.storage.getDirectory();
  try {
    await root.removeEntry(directory, { recursive: true });
  } catch (error) {
    // There was none.
    if (!(error instanceof DOMException) || error.name !== 'NotFoundError') throw error;
  }
}
