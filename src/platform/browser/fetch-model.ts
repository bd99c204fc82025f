/** Fetches a Hugging Face model directory by URL, each file once, into blobs. */
import { ModelError } from '../../errors.ts';
import type { ModelFiles } from './blobs.ts';

export interface FetchProgress {
  file: string;
  bytes: number;
  /** null if the server does not say. */
  totalBytes: number | null;
}

const REQUIRED = ['config.json', 'tokenizer.json', 'tokenizer_config.json'];
const OPTIONAL = ['generation_config.json', 'chat_template.jinja', 'special_tokens_map.json'];
const WEIGHTS = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
/** HTTP statuses below 500 that do not mean the file is missing: timeout, too early, too many requests. */
const FAILED = new Set([408, 425, 429]);

/**
 * `known`: the names of the directory's files; null: try every optional file. Throws ModelError with the file's URL and
 * the server's answer.
 */
export async function fetchModel(
  base: string,
  onProgress: (progress: FetchProgress) => void,
  known: readonly string[] | null = null,
): Promise<ModelFiles> {
  const folder = base.replace(/\/+$/, '');
  const files = new Map<string, Blob>();
  const take = async (name: string, required: boolean): Promise<Blob | null> => {
    if (!required && known && !known.includes(name)) return null;
    const wanted = required || known !== null;
    const blob = await fetchFile(`${folder}/${name}`, name, wanted, onProgress);
    if (blob) files.set(name, blob);
    return blob;
  };
  for (const name of REQUIRED) await take(name, true);
  await Promise.all(OPTIONAL.map((name) => take(name, false)));
  const index = await take(INDEX, false);
  const shards = index ? shardNames(await index.text(), `${folder}/${INDEX}`) : [WEIGHTS];
  for (const name of shards) await take(name, true);
  return files;
}

function shardNames(text: string, where: string): string[] {
  try {
    const { weight_map } = JSON.parse(text) as { weight_map: Record<string, string> };
    return [...new Set(Object.values(weight_map))];
  } catch (error) {
    throw new ModelError(`${where} is not an index of weight files: wanted JSON with a weight_map`, {
      cause: error,
    });
  }
}

async function fetchFile(
  url: string,
  file: string,
  required: boolean,
  onProgress: (progress: FetchProgress) => void,
): Promise<Blob | null> {
  let response: Response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw new ModelError(
      `${url} could not be fetched: the address is wrong, the server is unreachable, or it does not allow other pages to read it (CORS)`,
      { cause: error },
    );
  }
  // Hosts of single-page apps answer any unknown path with their page.
  const isPage = response.headers.get('content-type')?.startsWith('text/html') ?? false;
  if (!response.ok || isPage || !response.body) {
    await response.body?.cancel();
    // A failed request must not count as a missing optional file: without its end tokens or chat template, the model
    // would behave differently.
    if (FAILED.has(response.status) || response.status >= 500)
      throw new ModelError(`${url} could not be fetched (HTTP ${response.status}): try again later`);
    if (!required) return null;
    throw new ModelError(
      `${url} does not exist (${isPage ? 'the server sent a page instead' : `HTTP ${response.status}`}): wanted the address of a Hugging Face model directory, such as https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main`,
    );
  }
  const length = Number(response.headers.get('content-length'));
  const totalBytes = length > 0 && !response.headers.get('content-encoding') ? length : null;
  let bytes = 0;
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        onProgress({ file, bytes, totalBytes });
        controller.enqueue(chunk);
      },
    }),
  );
  try {
    return await new Response(counted).blob();
  } catch (error) {
    throw new ModelError(`${url} broke off after ${bytes} bytes: try again`, { cause: error });
  }
}
