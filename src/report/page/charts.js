const data = JSON.parse(document.getElementById("data").textContent);
// Buttons are named one by one: the library has one that sends charts to its maker.
const config = { displaylogo: false, displayModeBar: "hover", responsive: true, plotlyServerURL: "", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const seriesColour = (index) => colour("series-" + (index % 8));
const dashes = { mean: "dot", p50: "solid", p90: "dashdot", p99: "dash" };

// Plotly reads a part of HTML in texts; names come from outside.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const shortened = (text, length) => plain(text.length > length ? text.slice(0, length - 1) + "…" : text);

function layoutOf(height, more) {
  return {
    height,
    margin: { l: 64, r: 36, t: 40, b: 56 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink") }, namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("muted"), activecolor: colour("accent"), orientation: "v" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    ...more,
  };
}

function axisOf(title, more) {
  return {
    title: { text: title, standoff: 8, font: { color: colour("muted"), size: 12 } },
    gridcolor: colour("grid"),
    linecolor: colour("line"),
    zerolinecolor: colour("line"),
    tickfont: { color: colour("muted"), size: 12 },
    automargin: true,
    ...more,
  };
}

function draw(id, traces, layout) {
  return Plotly.react(document.getElementById(id), traces, layout, config);
}

const decades = Array.from({ length: 12 }, (_, place) => place - 4);
const logTicks = decades.flatMap((decade) => [1, 2, 5].map((digit) => digit * 10 ** decade));

// 1, 2 and 5 of each decade are named where it is logarithmic.
function scaledAxisOf(title, isLog, more) {
  const ticks = isLog ? { type: "log", tickmode: "array", tickvals: logTicks, ticktext: logTicks.map((tick) => String(+tick.toPrecision(1))) } : { type: "linear", rangemode: "tozero" };
  return axisOf(title, { ...ticks, ...more });
}

const isNarrow = () => matchMedia("(max-width: 44rem)").matches;

// Where the panels of a chart lie, row by row, from the top: [{ x: [from, to], y: [from, to] }].
function panelDomains(numPanels, numColumns, xGap, yGap) {
  const numRows = Math.ceil(numPanels / numColumns);
  const width = (1 - xGap * (numColumns - 1)) / numColumns;
  const height = (1 - yGap * (numRows - 1)) / numRows;
  return Array.from({ length: numPanels }, (_, place) => {
    const left = (place % numColumns) * (width + xGap);
    const bottom = 1 - height - Math.floor(place / numColumns) * (height + yGap);
    return { x: [left, left + width], y: [Math.max(0, bottom), bottom + height] };
  });
}

// Where a row stands on the axis of loads: a number, Infinity, or null where it has none.
function loadOf(row, kind) {
  if (kind === "reached") return row.request_throughput?.[0] ?? null;
  if (kind === "concurrency") return row.load.concurrency;
  return row.load.is_open ? row.load.request_rate ?? Infinity : null;
}

// The axis of loads: without bound lies beyond the greatest, under its own sign.
function loadAxis(kind, isLog) {
  const loads = data.rows.map((row) => loadOf(row, kind)).filter((load) => load !== null && load > 0);
  const finite = [...new Set(loads.filter(Number.isFinite))].sort((a, b) => a - b);
  const greatest = finite.at(-1) ?? 1;
  const least = finite[0] ?? 1;
  const beyond = isLog ? greatest * Math.max(1.3, (greatest / least) ** 0.15) : greatest * 1.15;
  const place = (load) => (load === Infinity ? beyond : load);
  const marks = loads.includes(Infinity) ? [...finite, Infinity] : finite;
  const scale = (load) => (isLog ? Math.log(place(load)) : place(load));
  const span = scale(marks.at(-1) ?? 1) - (isLog ? scale(least) : 0) || 1;
  const shown = [];
  for (const mark of marks.toReversed()) {
    if (!shown.length || scale(shown[0]) - scale(mark) >= 0.07 * span) shown.unshift(mark);
  }
  const format = (load) => (load === Infinity ? "∞" : String(+load.toPrecision(3)));
  const titles = { request_rate: "requests per second, as planned", concurrency: "requests at once", reached: "requests per second, reached" };
  return {
    place,
    axis: axisOf(titles[kind], {
      type: isLog ? "log" : "linear",
      rangemode: isLog ? "normal" : "tozero",
      tickmode: "array",
      tickvals: shown.map(place),
      ticktext: shown.map(format),
    }),
  };
}

function errorBars(figures, tint) {
  if (!figures.some((figure) => figure.length === 3)) return undefined;
  return {
    type: "data",
    symmetric: false,
    array: figures.map(([value, , high]) => (high ?? value) - value),
    arrayminus: figures.map(([value, low]) => value - (low ?? value)),
    color: tint,
    thickness: 1.2,
    width: 4,
  };
}

const panels = [
  { title: "TTFT, ms", sent: "ttft", scheduled: "ttft_scheduled" },
  { title: "TPOT, ms", sent: "tpot" },
  { title: "ITL, ms", sent: "itl" },
  { title: "E2E, ms", sent: "e2e", scheduled: "e2e_scheduled" },
];

function latencyTraces(choice, place) {
  const traces = [];
  const figures = choice.figure === "all" ? ["mean", "p50", "p99"] : [choice.figure];
  panels.forEach((panel, index) => {
    const metric = panel[choice.clock] ?? panel.sent;
    data.series.forEach((series, number) => figures.forEach((figure) => {
      const points = data.rows
        .filter((row) => row.series === number && row.metrics[metric]?.[figure] && loadOf(row, choice.load) !== null)
        .map((row) => ({ x: place(loadOf(row, choice.load)), figure: row.metrics[metric][figure], row }))
        .filter((point) => point.figure[0] !== null)
        .sort((a, b) => a.x - b.x);
      const name = figures.length > 1 ? (data.series.length > 1 ? `${plain(series.name)}, ${figure}` : figure) : plain(series.name);
      if (points.length) traces.push({
        type: "scatter",
        mode: "lines+markers",
        name,
        legendgroup: name,
        showlegend: !traces.some((trace) => trace.name === name),
        x: points.map((point) => point.x),
        y: points.map((point) => point.figure[0]),
        error_y: errorBars(points.map((point) => point.figure), seriesColour(number)),
        text: points.map((point) => plain(point.row.full_name)),
        hovertemplate: `%{text}<br>${panel.title} ${figure}: %{y:.4g}<extra></extra>`,
        line: { color: seriesColour(number), width: 2, dash: figures.length > 1 ? dashes[figure] : "solid" },
        marker: { size: 7, symbol: points.map((point) => (point.row.trust === "invalid" ? "x" : point.row.trust === "warn" ? "circle-open" : "circle")) },
        xaxis: "x" + (index ? index + 1 : ""),
        yaxis: "y" + (index ? index + 1 : ""),
      });
    }));
  });
  return traces;
}

function drawLatency(choice) {
  const { place, axis } = loadAxis(choice.load, choice.log_load);
  const numColumns = isNarrow() ? 1 : 2;
  const layout = layoutOf(isNarrow() ? 1100 : 720, { margin: { l: 64, r: 36, t: 56, b: 56 } });
  panelDomains(panels.length, numColumns, 0.09, isNarrow() ? 0.05 : 0.12).forEach((domain, index) => {
    const name = index ? index + 1 : "";
    const isLowest = index >= panels.length - numColumns;
    layout["xaxis" + name] = { ...axis, domain: domain.x, anchor: "y" + name, title: isLowest ? axis.title : undefined };
    layout["yaxis" + name] = scaledAxisOf(panels[index].title, choice.log_time, { domain: domain.y, anchor: "x" + name });
  });
  layout.legend = { ...layout.legend, y: 1.03 };
  return draw("latency-chart", latencyTraces(choice, place), layout);
}

// What no other point of the series beats both in speed and in throughput.
function frontier(points) {
  let best = -Infinity;
  const kept = [];
  for (const point of [...points].sort((a, b) => b.x - a.x || b.y - a.y)) {
    if (point.y > best) kept.push(point);
    best = Math.max(best, point.y);
  }
  return kept;
}

function drawPareto(choice) {
  const traces = [];
  data.series.forEach((series, number) => {
    const points = data.rows
      .filter((row) => row.series === number && row.trust !== "invalid" && row.metrics.tpot?.mean?.[0] > 0 && row.output_throughput)
      .map((row) => ({ x: 1000 / row.metrics.tpot.mean[0], y: row.output_throughput[0], row }));
    if (!points.length) return;
    const line = frontier(points);
    traces.push({
      type: "scatter", mode: "lines", x: line.map((point) => point.x), y: line.map((point) => point.y),
      line: { color: seriesColour(number), width: 2 }, hoverinfo: "skip", showlegend: false, legendgroup: String(number),
    });
    traces.push({
      type: "scatter", mode: points.length * data.series.length > 30 ? "markers" : "markers+text", name: plain(series.name), legendgroup: String(number),
      x: points.map((point) => point.x), y: points.map((point) => point.y),
      text: points.map((point) => shortened(point.row.name, 18)), textposition: number % 2 ? "top right" : "bottom right", textfont: { size: 11, color: colour("muted") }, cliponaxis: false,
      customdata: points.map((point) => plain(point.row.full_name)),
      hovertemplate: "%{customdata}<br>%{x:.4g} tokens/s of a user<br>%{y:.4g} tokens/s in all<extra></extra>",
      marker: { color: seriesColour(number), size: 8, symbol: points.map((point) => (point.row.trust === "warn" ? "circle-open" : "circle")) },
    });
  });
  return draw("pareto-chart", traces, layoutOf(460, {
    xaxis: axisOf("tokens per second of a user (1 / mean TPOT)", { rangemode: "tozero" }),
    yaxis: scaledAxisOf("output tokens per second", choice.log_throughput),
    showlegend: data.series.length > 1,
  }));
}

const curvePanels = [["ttft", "TTFT, ms"], ["itl", "ITL, ms"], ["e2e", "E2E, ms"]];

// One series: a colour for each row. Several: a colour for each series, a dash for each of its rows.
function curveStyle(row, order) {
  if (data.series.length === 1) return { color: seriesColour(order), width: 2, dash: order < 8 ? "solid" : "dash" };
  const place = data.rows.filter((other) => other.series === row.series).indexOf(row);
  return { color: seriesColour(row.series), width: 2, dash: ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"][place % 6] };
}

function drawCurves(choice) {
  const traces = [];
  const rows = data.rows.filter((row) => row.curves && (choice.rows === "all" || data.rows.indexOf(row) === Number(choice.rows)));
  curvePanels.forEach(([metric, title], index) => rows.forEach((row) => {
    const curve = row.curves[metric];
    if (!curve.x.length) return;
    const name = plain(row.full_name);
    traces.push({
      type: "scatter", mode: "lines", name, legendgroup: name, showlegend: !traces.some((trace) => trace.name === name),
      x: curve.x, y: curve.y, line: { ...curveStyle(row, data.rows.indexOf(row)), shape: "hv" },
      hovertemplate: `${title} ≤ %{x:.4g}: %{y:.1%}` + (curve.num_censored ? ` (${curve.num_censored} cut off)` : ""),
      xaxis: "x" + (index ? index + 1 : ""), yaxis: "y" + (index ? index + 1 : ""),
    });
  }));
  const layout = layoutOf(isNarrow() ? 1000 : 430);
  panelDomains(curvePanels.length, isNarrow() ? 1 : 3, 0.055, 0.08).forEach((domain, index) => {
    const name = index ? index + 1 : "";
    layout["xaxis" + name] = scaledAxisOf(curvePanels[index][1], choice.log_time, { domain: domain.x, anchor: "y" + name });
    const isOutermost = index === 0 || isNarrow();
    layout["yaxis" + name] = axisOf(isOutermost ? "share at or below" : undefined, { domain: domain.y, anchor: "x" + name, range: [0, 1.02], tickformat: ".0%" });
  });
  return draw("curves-chart", traces, layout);
}

