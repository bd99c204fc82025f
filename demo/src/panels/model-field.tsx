/** Chooses the model: a preset, a dropped Hugging Face directory, or a directory's address. */
import { useSignal } from '@preact/signals';
import type { Session } from '../session/types.ts';
import { ChoiceField } from './fields.tsx';

const MODELS = [
  ['recall', 'recall: trained, answers from its KV (1.8 M)'],
  ['nano', 'nano: random weights (0.1 M)'],
  ['tiny', 'tiny: random weights'],
  ['small', 'small: random weights'],
] as const;

const EXAMPLE = 'https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main';

export function ModelField({ session: { state, actions } }: { session: Session }) {
  const over = useSignal(false);
  const url = useSignal('');
  const take = (name: string, files: readonly File[]) => void actions.loadModel({ name, files });
  return (
    <fieldset
      class="model-field"
      data-over={over.value}
      aria-label="Model"
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => {
        over.value = false;
      }}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        if (event.dataTransfer)
          void readDrop(event.dataTransfer).then(
            ({ name, files }) => take(name, files),
            // Unreadable: loading no files reports the error.
            () => take('the dropped files', []),
          );
      }}
    >
      <ChoiceField
        label="Model"
        help="Or drop a Hugging Face directory here: config.json, tokenizer files, safetensors."
        value={state.settings.value.model}
        choices={MODELS}
        onChange={(model) => void actions.configure({ model })}
      />
      <div class="model-other">
        <label class="file-button">
          Choose a directory
          <input
            type="file"
            multiple
            ref={(input) => {
              if (input) input.webkitdirectory = true;
            }}
            onChange={(event) => {
              const files = [...(event.currentTarget.files ?? [])];
              const name = files[0]?.webkitRelativePath.split('/')[0] || 'the directory';
              if (files.length > 0) take(name, files);
              // So that the same directory can be chosen again after a fix.
              event.currentTarget.value = '';
            }}
          />
        </label>
        {/* The page itself reports an invalid address. */}
        <form
          class="model-address"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void actions.loadModel({ url: url.value });
          }}
        >
          <label class="model-url">
            <span class="visually-hidden">Address of a model directory</span>
            <input
              type="url"
              placeholder={EXAMPLE}
              value={url.value}
              onInput={(event) => {
                url.value = event.currentTarget.value;
              }}
            />
          </label>
          <button type="submit" disabled={url.value.trim() === ''}>
            Load
          </button>
        </form>
      </div>
    </fieldset>
  );
}

/** The files of a dropped directory (not of those inside it), or the dropped files. */
async function readDrop(data: DataTransfer): Promise<{ name: string; files: File[] }> {
  // The browser empties the list after this task: read it before the first await.
  const loose = [...data.files];
  const entries = [...data.items].map((item) => item.webkitGetAsEntry());
  const directory = entries.find((entry): entry is FileSystemDirectoryEntry => entry?.isDirectory ?? false);
  if (!directory) return { name: 'the dropped files', files: loose };
  const files: File[] = [];
  const reader = directory.createReader();
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (batch.length === 0) return { name: directory.name, files };
    for (const entry of batch) {
      if (!entry.isFile) continue;
      files.push(
        await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)),
      );
    }
  }
}
