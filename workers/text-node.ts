/** Entry point of the thread that tokenises long texts (src/server/text/text-thread.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { loadTokenizer } from '../src/model/load.ts';
import { nodePlatform } from '../src/platform/node.ts';

const { model } = workerData as { model: string };
const { tokenizer } = await loadTokenizer(model, await nodePlatform.openModel(model));

parentPort!.on('message', (text: string) => {
  const ids = Uint32Array.from(tokenizer.encode(text));
  parentPort!.postMessage(ids, [ids.buffer]);
});
