/** A strict parser of Prometheus' text format 0.0.4: anything unknown is an error. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface Family {
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  samples: Sample[];
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

export function parseExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let help: [string, string] | null = null;
  let current: [string, Family] | null = null;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, comment, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (comment === 'HELP') {
      if (families.has(name)) throw new Error(`${name} comes twice`);
      help = [name, rest];
    } else if (comment === 'TYPE') {
      if (help?.[0] !== name) throw new Error(`${name} has no HELP before its TYPE`);
      if (rest !== 'counter' && rest !== 'gauge' && rest !== 'histogram') throw new Error(`type ${rest}`);
      current = [name, { type: rest, help: help[1], samples: [] }];
      families.set(...current);
    } else {
      const sample = parseSample(line);
      if (!current || !belongs(sample.name, current)) throw new Error(`stray sample: ${line}`);
      const key = `${sample.name}${JSON.stringify(Object.entries(sample.labels).sort())}`;
      if (seen.has(key)) throw new Error(`sample comes twice: ${line}`);
      seen.add(key);
      current[1].samples.push(sample);
    }
  }
  for (const [name, family] of families) if (family.type === 'histogram') checkHistogram(name, family);
  return families;
}

/** The value of the one sample with these labels; throws if there is none or several. */
export function sampleOf(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const found = [...families.values()]
    .flatMap(({ samples }) => samples)
    .filter((s) => s.name === name && Object.entries(labels).every(([key, v]) => s.labels[key] === v));
  if (found.length !== 1) throw new Error(`${found.length} samples of ${name} ${JSON.stringify(labels)}`);
  return found[0]!.value;
}

function parseSample(line: string): Sample {
  const [, name, labelText = '', valueText] = SAMPLE.exec(line) ?? [];
  if (name === undefined) throw new Error(`no sample: ${line}`);
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  for (let at = 0; at < labelText.length; at = LABEL.lastIndex) {
    const match = LABEL.exec(labelText);
    if (!match) throw new Error(`labels of ${line}`);
    if (match[1]! in labels) throw new Error(`label ${match[1]} comes twice: ${line}`);
    labels[match[1]!] = match[2]!;
  }
  const value = Number(valueText);
  if (!Number.isFinite(value)) throw new Error(`value of ${line}`);
  return { name, labels, value };
}

function belongs(sample: string, [name, { type }]: [string, Family]): boolean {
  if (type !== 'histogram') return sample === name;
  return [`${name}_bucket`, `${name}_sum`, `${name}_count`].includes(sample);
}

/** Throws if buckets fall, if the last one is not +Inf, or if it is not the count. */
function checkHistogram(name: string, { samples }: Family): void {
  const buckets = samples.filter((s) => s.name === `${name}_bucket`);
  let before = 0;
  for (const { value, labels } of buckets) {
    if (value < before) throw new Error(`${name}: bucket ${labels.le} falls`);
    before = value;
  }
  const count = samples.find((s) => s.name === `${name}_count`);
  if (buckets.at(-1)?.labels.le !== '+Inf' || count?.value !== before) throw new Error(`${name}: no +Inf`);
}
