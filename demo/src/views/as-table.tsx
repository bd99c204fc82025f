/** A table as text alternative to a drawing. Rendered only while open. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

export function AsTable({ summary, children }: { summary: string; children: ComponentChildren }) {
  const open = useSignal(false);
  return (
    <details
      class="as-table"
      onToggle={(event) => {
        open.value = event.currentTarget.open;
      }}
    >
      <summary>{summary}</summary>
      {open.value && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by the keyboard too
        <div class="as-table-body" tabIndex={0}>
          {children}
        </div>
      )}
    </details>
  );
}
