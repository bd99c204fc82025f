/** The page's style: light and dark by the reader's setting, always light on paper. */
import { STAGE_GROUPS } from '../../measure/spans/stages.ts';

const LIGHT = `
--page:#faf9f7;--card:#ffffff;--ink:#1b2228;--muted:#5a6570;--line:#e2dfd9;--grid:#ecebe7;
--good:#1d7547;--bad:#b3352b;--good-soft:#e5f3ea;--bad-soft:#fbe9e7;--plain-soft:#efede9;
--mono:#7d8893;--uni:#d27a1e;--bi:#2c6fb3;--local:#8460b5;--extra:#25908a;
--s-router:#aab2bb;--s-queue:#cdbf9f;--s-lookup:#9c8f6f;--s-handshake:#6f7d8b;--s-load:#7aa32f;--s-pull:#2c6fb3;--s-prefill:#d98a35;
--s-sampling:#c0628c;--s-handover:#2f9d92;--s-decode:#8460b5;--s-other:#d5d3ce;--shade:#d4574a`;

const DARK = `
--page:#11151a;--card:#191f26;--ink:#e7eaed;--muted:#9ba7b3;--line:#2d353e;--grid:#262e36;
--good:#6fce98;--bad:#f28b80;--good-soft:#163325;--bad-soft:#3d1f1c;--plain-soft:#232b33;
--mono:#8f9ba7;--uni:#eba14d;--bi:#6db0f2;--local:#b597e0;--extra:#4fc4ba;
--s-router:#7c8791;--s-queue:#a3946f;--s-lookup:#c9bb93;--s-handshake:#9fb0c0;--s-load:#a9cf62;--s-pull:#6db0f2;--s-prefill:#eba14d;
--s-sampling:#e08db2;--s-handover:#4fc4ba;--s-decode:#b597e0;--s-other:#49525c;--shade:#f28b80`;

const series = ['mono', 'uni', 'bi', 'local', 'extra']
  .map((name) => `.c-${name}{fill:var(--${name});stroke:var(--${name})}`)
  .join('');
const stages = STAGE_GROUPS.map((name) => `.g-${name}{fill:var(--s-${name})}`).join('');

export const STYLE = `
:root{color-scheme:light dark;${LIGHT}}
@media screen and (prefers-color-scheme:dark){:root{${DARK}}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1000px;margin:0 auto;padding:48px 24px 64px}
header{margin-bottom:40px}
.command{margin:0 0 10px;font-size:13px;letter-spacing:.06em;text-transform:uppercase;color:var(--muted)}
h1{margin:0 0 14px;font-size:32px;line-height:1.22;font-weight:650;letter-spacing:-.015em;max-width:26em;text-wrap:balance}
h2{margin:0 0 6px;font-size:21px;font-weight:640;letter-spacing:-.01em}
h3{margin:24px 0 8px;font-size:15px;font-weight:640}
.subtitle,.intro,.note,.muted,footer{color:var(--muted)}
.subtitle{margin:0;max-width:46em;text-wrap:pretty}
.intro{margin:0 0 18px;max-width:46em}
.note{margin:10px 0 0;font-size:14px;max-width:52em}
p.bad{color:var(--bad)}p.good{color:var(--good)}
.verdicts{list-style:none;display:flex;flex-wrap:wrap;gap:8px;margin:22px 0 0;padding:0}
.verdicts li{padding:4px 12px;border-radius:15px;font-size:14px;background:var(--plain-soft)}
.verdicts li.good{background:var(--good-soft);color:var(--good)}
.verdicts li.bad{background:var(--bad-soft);color:var(--bad);font-weight:600}
.verdicts li.good::before{content:"✓ "}.verdicts li.bad::before{content:"✗ "}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:26px 28px 28px;margin:0 0 20px}
figure{margin:26px 0 0}section>figure:first-of-type{margin-top:14px}
figcaption,caption{font-size:15px;font-weight:640;text-align:left;margin-bottom:12px}
caption{padding:0 0 8px}
caption span{position:sticky;left:0;display:inline-block;max-width:100cqi}
svg{display:block;width:100%;height:auto;overflow:visible;font:12px/1 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
svg.narrow{display:none}
svg text{fill:var(--ink)}
svg text.tick,svg text.muted{fill:var(--muted)}
svg text.strong{font-weight:600}
.grid{stroke:var(--grid);stroke-width:1}
.link{stroke:var(--muted);stroke-width:.8;stroke-dasharray:2 2}
.mark{stroke:var(--ink);stroke-width:1.1;stroke-dasharray:4 3}
.median{stroke:var(--ink);stroke-width:2}
.band{fill:var(--ink);opacity:.08}
.shade{fill:var(--shade);opacity:.22;stroke:none}
${series}${stages}
circle{stroke:none}
svg rect[class^="c-"]{stroke:none}
.area{stroke:none;fill-opacity:.18}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.whisker{stroke-width:1.4;fill:none}
.modelled{fill-opacity:.45;stroke:var(--ink);stroke-width:.6;stroke-dasharray:2 2}
.saved{fill:var(--good)}.dearer{fill:var(--bad)}
svg text.saved-text{fill:var(--good);font-weight:600}svg text.dearer-text{fill:var(--bad);font-weight:600}
.figures{list-style:none;display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:22px 24px;margin:18px 0 4px;padding:0}
.figures li{display:flex;flex-direction:column}
.figures .label{font-size:14px;color:var(--muted)}
.figures .value{font-size:32px;line-height:1.25;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.figures .good{color:var(--good)}.figures .bad{color:var(--bad)}
.figures .muted{font-size:14px}
.scroll{overflow-x:auto;container-type:inline-size;margin-top:18px}
pre{margin:12px 0 0;padding:10px 12px;border:1px solid var(--line);border-radius:8px;font-size:13.5px}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--bi);outline-offset:3px;border-radius:4px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:7px 0 7px 18px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;font-weight:400}
th:first-child,td:first-child{padding-left:0}
th.left,td.left{text-align:left}
td.left,tbody th.left{white-space:normal;overflow-wrap:break-word;min-width:6.5em}
td.left:last-child{min-width:14em}
thead th{color:var(--muted);font-size:13px}
.groups th,.groups td{border:0;padding-bottom:0}
.groups th{text-align:right}
td.good,th.good{color:var(--good)}td.bad,th.bad{color:var(--bad)}
.strong{font-weight:640}
tbody tr:last-child>*{border-bottom:0}
details{margin-top:16px;border-top:1px solid var(--line);padding-top:14px}
summary{cursor:pointer;font-size:15px;font-weight:600}
caption.quiet,details caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(280px,1fr));gap:8px 32px;margin:12px 0 0;font-size:14px}
dl div{display:flex;gap:12px;justify-content:space-between;border-bottom:1px solid var(--grid);padding-bottom:6px}
dt{color:var(--muted);flex:none}dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}
footer{font-size:13px;margin-top:28px}
@media(max-width:680px){
main{padding:28px 12px 40px}h1{font-size:24px}
section{padding:20px 16px 22px;border-radius:12px}
svg.wide{display:none}svg.narrow{display:block;max-width:480px}
.figures{grid-template-columns:1fr 1fr;gap:18px 16px}.figures .value{font-size:25px}
th,td{padding-left:14px}
dl{grid-template-columns:1fr}
}
@media print{
body{background:#fff;font-size:12px}main{max-width:none;padding:0}
section{border:0;padding:0 0 18px;break-inside:auto}figure,table,.figures,tr{break-inside:avoid}
details::details-content{content-visibility:visible;block-size:auto}
.scroll{overflow:visible}pre{white-space:pre-wrap;overflow-wrap:anywhere}
}
`;
