// Elements without markup in texts: what comes from clusters and files is never read as HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

// Records of each step as bars; the newest at the right.
export function sparkline(records) {
  const most = Math.max(...records, 1);
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", `0 0 ${records.length * 4} 20`);
  picture.setAttribute("class", "sparkline");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `records copied in each step: ${records.join(", ")}`);
  records.forEach((count, at) => {
    const height = count ? Math.max(2, (count / most) * 20) : 1;
    const bar = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries({ x: at * 4, y: 20 - height, width: 3, height })) bar.setAttribute(key, value);
    picture.append(bar);
  });
  return picture;
}

export const number = (value) => (value == null ? "?" : value.toLocaleString("en"));

export function seconds(value) {
  if (value == null) return "unknown";
  if (value < 10) return value === 0 ? "0 s" : `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.floor(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// "Or more" where of some partitions nobody knows.
export const behind = (totals) =>
  totals.secondsBehind == null && !totals.partitionsUnknown
    ? "0 s"
    : seconds(totals.secondsBehind) + (totals.secondsBehind != null && totals.partitionsUnknown ? " or more" : "");

// Day and time in the order of ISO 8601, in the time zone of whoever looks.
export const clock = (text) => (text == null ? "never" : new Date(text).toLocaleString("sv"));
