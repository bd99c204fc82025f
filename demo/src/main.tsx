import { EngineCluster } from '../../src/cluster/cluster.ts';
import { clusterOptions } from '../../src/cluster/from-config.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import { loadArchitecture } from '../../src/model/load.ts';
import { browserPlatform } from '../../src/platform/browser.ts';

const config = parseRunConfig({ model: 'nano', weightDtype: 'f32', kvDtype: 'f32' });
const architecture = await loadArchitecture('nano', null);
const cluster = await EngineCluster.start(
  browserPlatform(new Map()),
  clusterOptions(config, architecture, true),
);
const out: unknown[] = [cluster.info];
for await (const t of cluster.generate({ conversationId: 'a', promptTokenIds: [1, 2, 3, 4, 5] }))
  out.push(t.tokenId);
document.body.append(JSON.stringify(out));
await cluster.close();
document.title = 'done';
