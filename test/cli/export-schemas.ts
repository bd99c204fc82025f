/** Published schemas of manifests and settings, which exports are checked against. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv } from 'ajv';

export const exportFixture = (name: string) =>
  JSON.parse(readFileSync(path.join(import.meta.dirname, '../fixtures/export', name), 'utf8'));

const ajv = new Ajv({ allowUnionTypes: true, schemas: [exportFixture('pod.json')] });

export const schemas = {
  StormService: ajv.compile(exportFixture('aibrix-stormservice.json')),
  PodAutoscaler: ajv.compile(exportFixture('aibrix-podautoscaler.json')),
  podConfig: ajv.compile(exportFixture('aibrix-pod-config.json')),
  values: ajv.compile(exportFixture('llm-d-values.json')),
  EndpointPickerConfig: ajv.compile(exportFixture('llm-d-epp.json')),
  DynamoGraphDeployment: ajv.compile(exportFixture('dynamo-graph.json')),
};
