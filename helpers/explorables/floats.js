// Numbers in the formats that explorables know. Another module asks for this one in its first line.

const FORMATS = {
  float32: { label: "float32", exponentBits: 8, fractionBits: 23, infinity: true },
  float16: { label: "float16 (fp16)", exponentBits: 5, fractionBits: 10, infinity: true },
  bfloat16: { label: "bfloat16 (bf16)", exponentBits: 8, fractionBits: 7, infinity: true },
  float8_e4m3fn: { label: "float8 e4m3", exponentBits: 4, fractionBits: 3, infinity: false },
  float8_e5m2: { label: "float8 e5m2", exponentBits: 5, fractionBits: 2, infinity: true },
};

// ---- Numbers: a pattern of bits is an unsigned integer, a value is a JavaScript double, which
// ---- holds every value of these formats exactly.

function measures(format) {
  const { exponentBits, fractionBits, infinity } = FORMATS[format];
  const bias = 2 ** (exponentBits - 1) - 1;
  const ones = 2 ** exponentBits - 1;
  const one = 2 ** fractionBits;
  const magnitude = 2 ** (exponentBits + fractionBits);
  return {
    exponentBits, fractionBits, infinity, bias, ones, one, magnitude,
    width: 1 + exponentBits + fractionBits,
    lowest: 1 - bias,
    // The pattern of the largest number: below inf, or, where there is none, below nan.
    largest: infinity ? magnitude - one - 1 : magnitude - 2,
  };
}

export function decode(format, bits) {
  const m = measures(format);
  const sign = Math.floor(bits / m.magnitude);
  const pattern = bits % m.magnitude;
  const exponent = Math.floor(pattern / m.one);
  const fraction = pattern % m.one;
  const parts = { sign, exponent, fraction, bias: m.bias, one: m.one };
  const factor = sign ? -1 : 1;
  if (pattern > m.largest) {
    const isInfinity = m.infinity && fraction === 0;
    const value = isInfinity ? factor * Infinity : NaN;
    return { ...parts, kind: isInfinity ? "infinity" : "nan", power: null, value };
  }
  const power = Math.max(exponent - m.bias, m.lowest);
  const significand = fraction + (exponent === 0 ? 0 : m.one);
  const value = factor * significand * 2 ** (power - m.fractionBits);
  const kind = exponent > 0 ? "normal" : fraction > 0 ? "subnormal" : "zero";
  return { ...parts, kind, power, value };
}

export function encode(format, value) {
  const m = measures(format);
  const sign = value < 0 || Object.is(value, -0) ? m.magnitude : 0;
  if (Number.isNaN(value)) {
    // The quiet nan that torch makes; where there is but one nan, all bits are ones.
    return m.infinity ? m.magnitude - m.one / 2 : m.magnitude - 1;
  }
  const size = Math.abs(value);
  const beyond = m.infinity ? m.largest + 1 : m.largest; // without an infinity, torch saturates
  if (size === Infinity) return sign + beyond;
  const power = Math.max(size === 0 ? m.lowest : exponentOf(size), m.lowest);
  // Scaling by a power of two is exact, so what is rounded is the number itself.
  const steps = roundHalfToEven(size / 2 ** (power - m.fractionBits));
  // A fraction that is rounded up to the next power of two carries into the exponent by itself.
  return sign + Math.min((power - m.lowest) * m.one + steps, beyond);
}

export function neighbors(format, bits) {
  const m = measures(format);
  const { kind, value } = decode(format, bits);
  if (kind === "nan") return { below: null, above: null, ulp: null };
  const ordered = bits >= m.magnitude ? -(bits - m.magnitude) : bits;
  const last = m.infinity ? m.largest + 1 : m.largest;
  const at = (place) => {
    if (Math.abs(place) > last) return null;
    return decode(format, place < 0 ? m.magnitude - place : place).value;
  };
  const found = { below: at(ordered - 1), above: at(ordered + 1) };
  if (kind === "infinity") return { ...found, ulp: null };
  const power = Math.max(value === 0 ? m.lowest : exponentOf(Math.abs(value)), m.lowest);
  return { ...found, ulp: power - m.fractionBits };
}

function exponentOf(size) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, size);
  const field = view.getUint32(0) >>> 20;
  return field === 0 ? -1023 : field - 1023; // a subnormal double is below every format here
}

function roundHalfToEven(number) {
  const floor = Math.floor(number);
  const rest = number - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

export function parse(text) {
  const typed = text.trim().toLowerCase().replace(/\u2212/g, "-").replace(/\*\*/g, "^");
  const word = /^([+-]?)(inf|infinity|nan)$/.exec(typed);
  if (word) return word[2] === "nan" ? NaN : word[1] === "-" ? -Infinity : Infinity;
  const power = /^([+-]?)2\^\(?([+-]?\d+)\)?$/.exec(typed);
  if (power) return (power[1] === "-" ? -1 : 1) * 2 ** Number(power[2]);
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(typed);
  return number ? Number(typed) : null;
}

// ---- Words

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function superscript(number) {
  const digits = String(Math.abs(number)).replace(/\d/g, (digit) => SUPERSCRIPTS[digit]);
  return number < 0 ? `⁻${digits}` : digits;
}

function write(value) {
  if (value === null) return "none";
  if (Number.isNaN(value)) return "nan";
  if (Math.abs(value) === Infinity) return value < 0 ? "-inf" : "inf";
  return Object.is(value, -0) ? "-0" : String(value);
}
