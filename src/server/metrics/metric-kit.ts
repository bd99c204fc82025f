/** A thin layer over prom-client. Its text matches the Prometheus Python client's, which vLLM uses. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

export type Labels = Readonly<Record<string, string>>;

/** A port's metrics as text. */
export interface Exposition {
  readonly contentType: string;
  text(): Promise<string>;
  /** Only the metrics that load balancers need, and that reveal nothing about single requests. */
  plainText(): Promise<string>;
}

/** Creates metrics with the common labels. Each exists from the start, at 0. */
export class MetricKit {
  readonly #registry = new Registry();

  constructor(commonLabels: Labels) {
    this.#registry.setDefaultLabels(commonLabels);
  }

  counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: [this.#registry] });
  }

  /** One series for each of the label's `values`, which must be all its values. */
  counters<T extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly T[],
  ): (value: T, by: number) => void {
    const counter = new Counter({ name, help, labelNames: [label], registers: [this.#registry] });
    for (const value of values) counter.inc({ [label]: value }, 0);
    return (value, by) => counter.inc({ [label]: value }, by);
  }

  /** Counts by several labels. Only the values `first` exist from the start; the caller must keep their number small. */
  labelled<L extends Labels>(
    name: string,
    help: string,
    first: L,
  ): (values: Record<keyof L, string>) => void {
    const counter = new Counter({ name, help, labelNames: Object.keys(first), registers: [this.#registry] });
    counter.inc({ ...first }, 0);
    return (values) => counter.inc({ ...values });
  }

  gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers: [this.#registry] });
  }

  /** A series exists from the start only for these of the label's `values`. */
  gauges<T extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly T[],
  ): (value: T, to: number) => void {
    const gauge = new Gauge({ name, help, labelNames: [label], registers: [this.#registry] });
    for (const value of values) gauge.set({ [label]: value }, 0);
    return (value, to) => gauge.set({ [label]: value }, to);
  }

  /** A gauge that is always 1; its information is in its labels. */
  info(name: string, help: string, labels: Labels): void {
    const gauge = new Gauge({ name, help, labelNames: Object.keys(labels), registers: [this.#registry] });
    gauge.set({ ...labels }, 1);
  }

  histogram(name: string, help: string, buckets: readonly number[]): Histogram {
    return new Histogram({ name, help, buckets: [...buckets], registers: [this.#registry] });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Prometheus text format 0.0.4, for the metrics of these names. Default: all. */
  async text(names?: readonly string[]): Promise<string> {
    const texts = names
      ? await Promise.all(names.map((name) => this.#registry.getSingleMetricAsString(name)))
      : [await this.#registry.metrics()];
    const text = names ? `${texts.join('\n\n')}\n` : texts[0]!;
    return text.replace(/\ble="([\d.e+-]+)"/g, (_, bound: string) => `le="${pythonFloat(Number(bound))}"`);
  }
}

/** Advances counters to follow values that are counted elsewhere. */
export class FollowedCounts {
  /** The last value, by name. */
  readonly #last = new Map<string, number>();

  /** Adds the increase since the last call. A value below the last one means that its source restarted from 0. */
  follow(name: string, counter: { inc(by: number): void }, now: number): void {
    const last = this.#last.get(name) ?? 0;
    counter.inc(now >= last ? now - last : now);
    this.#last.set(name, now);
  }

  /** All sources have restarted from 0. */
  clear(): void {
    this.#last.clear();
  }
}

/** A bucket's bound as the Prometheus Python client writes it: 1 is '1.0', 2^33 is '8.589934592e+09'. */
export function pythonFloat(value: number): string {
  const text = Number.isInteger(value) ? `${value}.0` : String(value);
  const dot = text.indexOf('.');
  if (value <= 0 || dot <= 6) return text;
  const digits = `${text[0]}.${text.slice(1, dot)}${text.slice(dot + 1)}`.replace(/[0.]+$/, '');
  return `${digits}e+${String(dot - 1).padStart(2, '0')}`;
}

/** 1, 2, 5, 10, 20, ... up to `most` (vLLM's build_1_2_5_buckets). */
export function buckets125(most: number): number[] {
  const buckets: number[] = [];
  for (let scale = 1; ; scale *= 10) {
    for (const step of [1, 2, 5]) {
      if (step * scale > most) return buckets;
      buckets.push(step * scale);
    }
  }
}
