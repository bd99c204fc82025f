/** The table of numbers for the class, of this machine or of a recording, with a button to copy it. */
import { useComputed, useSignal } from '@preact/signals';
import type { Session } from '../session/types.ts';
import { asMarkdown, numberRows } from './numbers.ts';

const SAID_MS = 2500;

export function NumbersView({ session: { state } }: { session: Session }) {
  const rows = useComputed(() =>
    numberRows({
      settings: state.settings.value,
      machine: state.machine.value,
      turns: state.turns.value,
      transfers: state.transfers.value,
      race: state.race.value,
      crossover: state.crossover.value,
      recorded: state.replay.value !== null,
    }),
  );
  const recorded = state.replay.value !== null;
  const title = recorded ? 'The recording’s numbers' : 'Your numbers';
  const said = useSignal('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(asMarkdown(rows.value, recorded));
      said.value = 'Copied.';
    } catch {
      said.value = 'The browser refused. Select the table and copy it by hand.';
    }
    setTimeout(() => {
      said.value = '';
    }, SAID_MS);
  };
  return (
    <section class="panel numbers" aria-label={title}>
      <div class="panel-head">
        <h2>{title}</h2>
        <p class="numbers-said" aria-live="polite">
          {said.value}
        </p>
        <button type="button" onClick={() => void copy()}>
          {recorded ? 'Copy these numbers' : 'Copy my numbers'}
        </button>
      </div>
      <table>
        <tbody>
          {rows.value.map(({ what, value, how }) => (
            <tr key={what}>
              <th scope="row">{what}</th>
              <td>{value ?? <span class="numbers-how">{how}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
