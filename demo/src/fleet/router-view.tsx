/** The router's last decisions; for a chosen one the candidates, what the router knew of each, and the reason. */
import { useSignal, useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { RoutedCandidate } from '../../../src/router/decision.ts';
import type { LiveDecision } from '../../../src/simulate/live/view.ts';
import { ms } from '../views/format.ts';
import type { Fleet } from './fleet.ts';
import { seconds, shortName, withShortNames } from './names.ts';

/** Decisions shown. */
const SHOWN = 6;
/** The list changes at most this often, so that it can be read. */
const CHANGES_MS = 1000;

export function RouterView({ fleet }: { fleet: Fleet }) {
  const shown = useSignal<readonly LiveDecision[]>([]);
  const changed = useSignal(0);
  const list = useRef<HTMLTableSectionElement>(null);
  useSignalEffect(() => {
    const look = fleet.look.value;
    const now = performance.now();
    if (look === null) shown.value = [];
    // The row with the keyboard's focus would leave with it.
    else if (list.current?.querySelector(':focus-visible')) return;
    else if (fleet.held.value || shown.peek().length === 0 || now - changed.peek() > CHANGES_MS) {
      changed.value = now;
      shown.value = look.decisions.slice(-SHOWN).reverse();
    }
  });
  const path = fleet.path.value;
  const chosen = path?.decision ?? shown.value[0];
  return (
    <section class="panel fleet-router" aria-label="The router">
      <div class="panel-head">
        <h3>Router</h3>
        <span class="quiet-text">routes by {fleet.look.value?.routing ?? fleet.settings.value.routing}</span>
      </div>
      <div class="fleet-decisions">
        <table>
          <caption class="visually-hidden">The last routed turns</caption>
          <thead>
            <tr>
              <th scope="col">at</th>
              <th scope="col">turn</th>
              <th scope="col">goes to</th>
              <th scope="col">why</th>
            </tr>
          </thead>
          <tbody ref={list}>
            {shown.value.map((decision) => (
              <Decision
                key={decision.turnId}
                decision={decision}
                chosen={decision.turnId === chosen?.turnId}
                onChoose={() => fleet.follow(decision.turnId)}
              />
            ))}
          </tbody>
        </table>
        {chosen && <Candidates decision={chosen} />}
      </div>
      <p class="field-help">
        {shown.value.length === 0
          ? 'No turn has been routed yet.'
          : 'P0 → D0: P0 reads and hands over to D0. D1 → P0 → D0: P0 first pulls from D1.'}
      </p>
    </section>
  );
}

function Decision(props: { decision: LiveDecision; chosen: boolean; onChoose: () => void }) {
  const { decision, chosen, onChoose } = props;
  const { conversationId, turn, routed } = decision;
  return (
    <tr data-chosen={chosen}>
      <td class="number">{seconds(routed.startMs)}</td>
      <td>
        <button type="button" class="fleet-turn" aria-pressed={chosen} onClick={onChoose}>
          {conversationId} #{turn}
        </button>
      </td>
      <td class="fleet-way">{wayOf(decision)}</td>
      <td class="fleet-why">{withShortNames(routed.why)}</td>
    </tr>
  );
}

export function wayOf({ routed: { prefill, decode, load } }: LiveDecision): string {
  if (prefill === null) return shortName(decode);
  const back = load ? `${shortName(load)} → ` : '';
  return `${back}${shortName(prefill)} → ${shortName(decode)}`;
}

function Candidates({
  decision: { conversationId, turn, promptTokens, routed, ttftMs },
}: {
  decision: LiveDecision;
}) {
  const looked = routed.candidates.some(({ cachedTokens }) => cachedTokens !== null);
  const scored = routed.candidates.some(({ score }) => score !== null);
  const best = routed.candidates.find((candidate) => candidate.best)?.best;
  const taken = ({ engineId, side }: RoutedCandidate) =>
    engineId === (side === 'prefill' ? routed.prefill : routed.decode);
  // The chosen engines come first: in a large fleet not all rows are visible.
  const inOrder = routed.candidates.toSorted((a, b) => Number(taken(b)) - Number(taken(a)));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by the keyboard too
    <section class="fleet-candidates" aria-label="Candidates" tabIndex={0}>
      <p>
        <strong>
          {conversationId} #{turn}
        </strong>
        , {promptTokens.toLocaleString('en-US')} tokens, by {routed.policy}
        {ttftMs !== null && `: first token after ${ms(ttftMs)}`}
      </p>
      <p class="quiet-text">{withShortNames(routed.why)}</p>
      <table>
        <caption class="visually-hidden">Engines that could have served it</caption>
        <thead>
          <tr>
            <th scope="col">candidate</th>
            <th scope="col">in flight</th>
            {looked && <th scope="col">cached tokens</th>}
            {scored && <th scope="col">score: {best} wins</th>}
          </tr>
        </thead>
        <tbody>
          {inOrder.map((candidate) => (
            <tr key={`${candidate.side} ${candidate.engineId}`} data-chosen={taken(candidate)}>
              <th scope="row">
                {shortName(candidate.engineId)}
                {taken(candidate) && ' ✓'}
                {taken(candidate) && <span class="visually-hidden">chosen</span>}
              </th>
              <td>{candidate.inFlight}</td>
              {looked && <td>{candidate.cachedTokens ?? ''}</td>}
              {scored && <td>{scoreOf(candidate)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const scoreOf = ({ score }: RoutedCandidate): string =>
  score === null ? '' : String(Number(score.toPrecision(3)));
