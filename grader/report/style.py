"""The CSS of the page: a light and a dark theme, the light one in print, and a single column below 700 pixels."""

from __future__ import annotations

_LIGHT = """--paper:#ffffff;--band:#f3f5f7;--ink:#1a1e23;--soft:#535c66;--line:#cfd6dd;--hair:#e4e8ec;--good:#0b5394;
--bad:#a33800;--badband:#fdf1ea;--track:#6b7480;--bar:#9fb2c4;--over:#d5e0ea;--stampbad:#a33800;--stampgood:#0b5394;
--stampvoid:#535c66;color-scheme:light"""
_DARK = """--paper:#15181c;--band:#1d2227;--ink:#e6e9ed;--soft:#a5afba;--line:#3a424b;--hair:#2a3037;--good:#82bdf2;
--bad:#ffa270;--badband:#2c211b;--track:#8b95a1;--bar:#5d7590;--over:#2c3d4e;--stampbad:#a34412;--stampgood:#1d609c;
--stampvoid:#4a535d;color-scheme:dark"""

_PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,Arial,sans-serif;
 font-variant-numeric:tabular-nums;print-color-adjust:exact;-webkit-print-color-adjust:exact;overflow-wrap:anywhere}
main{max-width:1096px;margin:0 auto;padding:20px 24px 48px}
h1{font-size:24px;line-height:1.25;margin:0}h2{font-size:20px;line-height:1.3;margin:0 0 6px}
h3{font-size:15px;margin:0 0 4px}
section{margin-top:38px}p{margin:4px 0;max-width:86ch}ul,ol{margin:6px 0;padding-left:20px}li{margin:3px 0}
a{color:var(--good)}.soft,small{color:var(--soft)}small{font-size:13px}.good{color:var(--good)}.bad{color:var(--bad)}
code,pre{font-family:ui-monospace,Menlo,Consolas,"Liberation Mono",monospace;font-size:.92em}
pre{background:var(--band);padding:10px 14px;margin:6px 0;white-space:pre-wrap}
.sign{width:18px;height:18px;vertical-align:-4px;margin-right:6px;flex:none}
table{border-collapse:collapse;width:100%;font-size:14px;line-height:1.45;margin-top:8px}
th{text-align:left;font-weight:400;font-size:13px;color:var(--soft);vertical-align:bottom}
th,td{padding:6px 14px 6px 0;border-top:1px solid var(--hair);vertical-align:top}th{border-top:0}
th:last-child,td:last-child{padding-right:0}.num{text-align:right;white-space:nowrap}
.about{color:var(--soft);display:flex;flex-wrap:wrap;gap:0 22px;margin:2px 0}

.verdict{display:grid;grid-template-columns:216px 1fr;border:1px solid var(--line);margin-top:16px}
.stamp{background:var(--stamp);color:#fff;padding:20px 22px;display:flex;flex-direction:column;justify-content:center}
.fail{--stamp:var(--stampbad)}.pass{--stamp:var(--stampgood)}.void{--stamp:var(--stampvoid)}
.stamp b{font-size:38px;line-height:1.15}.stamp .sign{width:32px;height:32px;vertical-align:-3px;margin-right:10px;
 --paper:var(--stamp)}
.stamp span{font-size:20px;font-weight:600}.stamp em{font-size:13px;font-style:normal}
.lead{padding:18px 22px;min-width:0}.lead h2{font-size:22px}
.facts{display:grid;grid-template-columns:repeat(3,1fr);gap:0 20px;margin:14px 0 0}
.facts>div{border-top:2px solid var(--line);padding-top:6px}.facts>div.no{border-color:var(--bad)}
.facts dt{font-size:13px;color:var(--soft)}.facts dd{margin:0;font-size:17px;font-weight:650}

.phases .name{white-space:nowrap}
.phases .word{white-space:nowrap;font-weight:650}.phases tr.broke td{background:var(--badband)}
.phases td:first-child,.phases th:first-child{padding-left:12px}
.phases tr.broke td:first-child{box-shadow:inset 4px 0 0 var(--bad)}
.phases td:last-child,.phases th:last-child{padding-right:12px}.phases .does{color:var(--soft)}

.story{table-layout:fixed}.story .when{width:82px}.story col.l{width:118px}
.story td{border:0;padding:8px 10px 8px 0;line-height:22px}.story thead th{border-bottom:1px solid var(--line)}
.story th.lane b{color:var(--ink);font-weight:650}.story th.lane span{display:block;font-size:12px}
.story td.when,.story th.when{text-align:right;color:var(--soft);font-size:13px;padding-right:14px;white-space:nowrap}
.story th.lane{padding-left:4px;padding-right:2px}
.story td.lane{position:relative;padding:8px 4px 8px 32px;font-size:13px;--x:14px;--y:19px}
.story td.lane::before,.story td.lane::after{content:"";position:absolute;left:calc(var(--x) - 1px)}
.story td.lane::before{top:0;height:var(--y)}.story td.lane::after{top:var(--y);bottom:0}
.story .top-run::before,.story .end-run::after{border-left:2px solid var(--track)}
.story .top-off::before,.story .end-off::after{border-left:2px dotted var(--ink)}
.story td.top-open::before,.story td.end-open::after{left:calc(var(--x) - 4px);border-left:8px solid var(--bar)}
.at{position:absolute;left:calc(var(--x) - 10px);top:calc(var(--y) - 10px);width:20px;height:20px;z-index:1;
 background:var(--paper);border-radius:50%}
.at .sign{width:20px;height:20px;margin:0;display:block}.lab{overflow-wrap:break-word;display:block}
.disc{display:block;min-width:20px;height:20px;border-radius:10px;background:var(--ink);color:var(--paper);
 font:650 12px/20px system-ui,sans-serif;text-align:center}
.hit td{background:var(--band)}.hit .at{background:var(--band)}.story small{display:block;line-height:1.4}
.story .end td{border-top:1px solid var(--line)}.story .end .lane{font-weight:650}
.story td.wrong{background:var(--badband);color:var(--bad)}
.wrong .at{background:var(--badband)}.now{display:none;list-style:none;padding:0}
.key{display:flex;flex-wrap:wrap;gap:2px 18px;padding:8px 0 0;margin-top:4px;list-style:none;font-size:13px;
 color:var(--soft);border-top:1px solid var(--line)}
.key li{display:flex;align-items:center}.key .sign{width:15px;height:15px}
.key i{display:inline-block;height:15px;margin-right:6px}
.key .bar{width:8px;background:var(--bar)}.key .run{border-left:2px solid var(--track)}
.key .off{border-left:2px dotted var(--ink)}
.why{display:grid;grid-template-columns:repeat(3,1fr);gap:20px 32px;margin-top:22px}
.why>div{border-top:2px solid var(--ink);padding-top:8px;min-width:0;font-size:14px}
.why>.rule{border-color:var(--bad)}.sum{font-size:13px}.sum td{padding:3px 0}.sum td.num{padding-left:10px}
.log{margin-top:20px}.log pre{font-size:13px}
.rules,.score,.orders{max-width:860px}.rules td:first-child{white-space:nowrap}
.rules .some{font-weight:600}.rules br+code{font-weight:400;color:var(--soft)}
.group{margin-top:22px}.orders{font-size:13px}.pairs td:first-child,.env td:first-child{width:210px;color:var(--soft)}

figure{margin:10px 0 0}figcaption{font-size:14px;color:var(--soft);max-width:90ch;margin-top:8px}
.legend{display:flex;flex-wrap:wrap;gap:0 22px;font-size:13px;color:var(--soft)}
.legend i{display:inline-block;width:22px;margin-right:6px;vertical-align:4px}
.i50{border-top:2px solid var(--ink)}.i99{border-top:2px solid var(--good)}
.chart{padding:26px 22px 26px 56px}.plot{position:relative;height:250px;border-left:1px solid var(--line);
 border-bottom:1px solid var(--line)}
.plot svg{position:absolute;inset:0;width:100%;height:100%;display:block}.plot svg *{vector-effect:non-scaling-stroke}
.zone{fill:var(--band)}.grid{stroke:var(--line)}.fault{stroke:var(--track)}.hurt{stroke:var(--bad);stroke-width:1.5}
.p50,.p99{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.p50{stroke:var(--ink)}
.p99{stroke:var(--good)}
.lb{position:absolute;font-size:12px;line-height:16px;white-space:nowrap;color:var(--soft)}
.lb.y{right:100%;margin-right:8px;transform:translateY(-50%)}
.lb.x{top:100%;margin-top:5px;transform:translateX(-50%)}.lb.phase{bottom:100%;margin-bottom:4px;
 transform:translateX(-50%)}
.marks{position:relative;height:18px;margin:0 22px 0 56px}.marks .lb{transform:translateX(-50%);color:var(--bad);
 font-weight:650}
.steps td,.steps th{padding-right:12px}.steps .bars{position:relative;width:38%;padding:0}.steps th.bars{height:30px}
.bars i{position:absolute;top:6px;height:18px;left:0;border:1px solid var(--track)}.bars .in{background:var(--bar)}
.bars .mark{border:0;border-left:2px solid var(--ink);top:0;height:100%}
.goal{position:absolute;bottom:6px;transform:translateX(-100%);padding-right:6px;white-space:nowrap;color:var(--ink)}
.best td{font-weight:650}.best .bars .in{background:var(--good)}.over td{color:var(--soft)}
.over td b{color:var(--ink)}.over .bars .in{background:var(--over)}
.steps td:last-child{padding-left:14px}.steps .bars+*{padding-left:10px}
.words{columns:2;column-gap:40px;font-size:14px;margin:8px 0 0}
.words div{break-inside:avoid;padding:3px 0}.words dt{font-weight:650;display:inline}.words dt::after{content:": "}
.words dd{display:inline;margin:0}
footer{margin-top:34px;border-top:1px solid var(--line);padding-top:8px;font-size:13px;color:var(--soft)}
"""
_NARROW = """
main{padding:14px 16px 36px}section{margin-top:32px}.verdict{grid-template-columns:1fr}
.stamp{padding:10px 16px;flex-direction:row;flex-wrap:wrap;align-items:center;justify-content:space-between;
 gap:0 14px}
.stamp b{font-size:28px}.stamp .sign{width:24px;height:24px}.stamp em{width:100%}.lead{padding:14px 16px}
.lead h2{font-size:20px}
.facts{grid-template-columns:1fr}.facts>div{display:flex;justify-content:space-between;gap:12px;
 border-top-width:1px;padding:6px 0}
.facts dt{font-size:14px}.facts dd{font-size:15px;text-align:right}
.phases tr:first-child,.phases .does{display:none}.phases tr{display:grid;grid-template-columns:1fr auto auto;
 gap:0 12px;border-top:1px solid var(--hair);padding:7px 0}
.phases td{border:0;padding:0!important}.phases .found{grid-row:2;grid-column:1/-1;color:var(--soft)}
.phases tr.broke{background:var(--badband);box-shadow:inset 4px 0 0 var(--bad);padding-left:10px;padding-right:6px}
.phases tr.broke td:first-child{box-shadow:none}.phases tr.broke .found{color:var(--ink)}
.story .when{width:58px}.story col.l{width:25px}.story td.lane{--x:12px;padding:8px 0}.story .lab{display:none}
.story td.when,.story th.when{padding-right:5px;font-size:12px}.story td.say,.story th.say{padding-left:10px}
.story th.lane{padding:0 0 6px}
.story th.lane span{display:none}.story th.lane b{writing-mode:vertical-rl;transform:rotate(180deg);font-size:12px;
 margin-left:3px}
.now{display:block}.why{grid-template-columns:1fr}th,td{padding-right:10px}
.wide,.opt{display:none}.chart{padding-left:44px;padding-right:14px}.marks{margin-left:44px;margin-right:14px}
.plot{height:220px}.lb.y{margin-right:5px}
.lb.phase{font-size:11px}.tight{display:none}
.steps .bars{display:none}.steps td,.steps th{font-size:13px;overflow-wrap:normal;padding-right:8px}
.steps th{white-space:normal}
.pairs td,.env td{display:block;border:0;padding:0;width:auto!important}
.pairs tr,.env tr{display:block;border-top:1px solid var(--hair);padding:6px 0}
.words{columns:1}
"""
_PRINT = """
@page{size:A4;margin:14mm}
body{font-size:13px}main{max-width:none;padding:0}section{margin-top:24px}a{color:inherit;text-decoration:none}
h2,h3,thead,h2+p{break-after:avoid}tr,p,figure,.verdict,.why>div,.log,.chart,.steps,.score{break-inside:avoid}
.verdict{grid-template-columns:176px 1fr}.stamp b{font-size:30px}
#order{break-before:page;margin-top:0}.plot{height:205px}
.story .when{width:62px}.story col.l{width:76px}.story td{padding-top:4px;padding-bottom:4px;line-height:18px}
.story td.lane{padding:4px 2px 4px 27px;font-size:12px;line-height:16px;--y:15px}
.steps td,.steps th{font-size:12px;padding-right:8px}
.steps .bars{width:30%}.bars i{top:4px}.why{gap:14px 20px}.sum{font-size:12px}
"""
STYLE = (
    f":root{{{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}@media print{{:root{{{_LIGHT}}}}}{_PAGE}"
    f"@media screen and (max-width:700px){{{_NARROW}}}@media print{{{_PRINT}}}"
)
