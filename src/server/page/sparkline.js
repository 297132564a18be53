// A line of the last values, drawn as SVG: from 0 at the bottom to the largest at the top.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 28;

export class Sparkline {
  // `numPoints`: how many values fill the width; `topMin`: the scale does not shrink below it.
  constructor(numPoints, topMin) {
    this.numPoints = numPoints;
    this.topMin = topMin;
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("aria-hidden", "true");
    [this.area, this.line] = ["area", "line"].map((name) => {
      const path = this.svg.appendChild(document.createElementNS(SVG, "path"));
      path.setAttribute("class", name);
      return path;
    });
  }

  // The newest value last, at the right edge; undefined leaves a gap.
  draw(values) {
    const top = Math.max(this.topMin, ...values.filter((value) => value !== undefined));
    const x = (i) => ((this.numPoints - values.length + i) * WIDTH) / (this.numPoints - 1);
    const y = (value) => HEIGHT - 1 - (value / top) * (HEIGHT - 3);
    let line = "";
    let area = "";
    let begin;  // where the current piece starts
    for (let i = 0; i <= values.length; ++i) {
      if (i < values.length && values[i] !== undefined) {
        begin ??= i;
        line += `${begin === i ? "M" : "L"}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
      } else if (begin !== undefined) {
        const piece = line.slice(line.lastIndexOf("M"));
        area += `${piece}L${x(i - 1).toFixed(1)} ${HEIGHT}L${x(begin).toFixed(1)} ${HEIGHT}Z`;
        begin = undefined;
      }
    }
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
  }
}
