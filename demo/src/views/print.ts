/** Printing: the styles for paper, which is white, so that a dark theme gives way while it lasts. */
import '../styles/print.css';
import { batch } from '@preact/signals';
import { printing, themeVersion } from './palette.ts';
import { chooseTheme, theme } from './theme.ts';

addEventListener('beforeprint', () => {
  document.documentElement.dataset.theme = 'light';
  batch(() => {
    printing.value = true;
    themeVersion.value++;
  });
});

addEventListener('afterprint', () => {
  chooseTheme(theme.peek());
  printing.value = false;
});
