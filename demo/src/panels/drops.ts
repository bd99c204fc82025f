/** Keeps the page when a file is dropped next to the field that takes it: a browser may open the file in the page's place. */

/** Call once, in a browser. */
export function watchDrops(): void {
  for (const kind of ['dragover', 'drop'] as const) addEventListener(kind, refuseFiles);
}

function refuseFiles(event: DragEvent): void {
  const { dataTransfer, target, defaultPrevented } = event;
  // Taken by a field; or by a file button, which needs the browser's own way.
  const taken = defaultPrevented || (target instanceof Element && target.matches('input[type="file"]'));
  if (taken || !dataTransfer?.types.includes('Files')) return;
  event.preventDefault();
  dataTransfer.dropEffect = 'none';
}
