/** Weights from a safetensors file, and the layers that are made of them. All numbers are held as fp32. */

/**
 * @typedef {{data: Float32Array, shape: number[]}} Tensor a matrix has its rows one after another
 * @typedef {Map<string, Tensor>} Tensors
 */

/** Bytes of a number, by its type in the file. @type {Record<string, number>} */
const WIDTH = { F32: 4, F16: 2, I8: 1, U8: 1 };

/**
 * Read a safetensors file of fp32, fp16, and matrices in 8 or 12 bits: NAME has the upper 8 bits, NAME.scale the factor
 * of each row, NAME.low the lower 4 bits, two in a byte.
 *
 * @param {ArrayBuffer} file
 * @returns {Tensors}
 */
export function readSafetensors(file) {
  const view = new DataView(file);
  const size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, size)));
  delete header.__metadata__;
  /** @type {Tensors} */
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (!(dtype in WIDTH)) throw new Error(`the weights ${name} are of type ${dtype}; use F32, F16, I8 or U8`);
    const numbers = new Float32Array((offsets[1] - offsets[0]) / WIDTH[dtype]);
    for (let i = 0, at = 8 + size + offsets[0]; i < numbers.length; i += 1, at += WIDTH[dtype]) {
      if (dtype === "F32") numbers[i] = view.getFloat32(at, true);
      else if (dtype === "F16") numbers[i] = half(view.getUint16(at, true));
      else numbers[i] = dtype === "I8" ? view.getInt8(at) : view.getUint8(at);
    }
    tensors.set(name, { data: numbers, shape });
  }
  for (const [name, { data, shape }] of tensors) {
    const scale = tensors.get(`${name}.scale`)?.data;
    if (!scale) continue;
    const low = tensors.get(`${name}.low`)?.data;
    if (low) data.forEach((upper, i) => (data[i] = 16 * upper + ((low[i >> 1] >> (4 * (i % 2))) & 15)));
    data.forEach((number, i) => (data[i] = number * scale[Math.floor(i / shape[1])]));
  }
  return tensors;
}

/** A number of 16 bits. @param {number} bits */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
}

/** y = W x + b. */
export class Linear {
  /** @param {Tensor} weight (O, I) @param {Float32Array} [bias] (O,) */
  constructor(weight, bias) {
    this.outputs = weight.shape[0];
    this.inputs = weight.shape[1];
    this.weight = weight.data;
    this.bias = bias;
  }

  /** @param {Float32Array} x (I,) @returns {Float32Array} (O,) */
  apply(x) {
    return this.all([x])[0];
  }

  /** Of several vectors. @param {Float32Array[]} xs (I,) each @returns {Float32Array[]} (O,) each */
  all(xs) {
    const ys = xs.map(() => this.bias?.slice() ?? new Float32Array(this.outputs));
    let i = 0;
    for (; i + 1 < xs.length; i += 2) multiplyTwo(this.weight, xs[i], xs[i + 1], ys[i], ys[i + 1]);
    if (i < xs.length) multiply(this.weight, xs[i], ys[i]);
    return ys;
  }
}

/**
 * Add W x to y, four rows at a time: each unit of x is read once for them.
 *
 * @param {Float32Array} weight
 * @param {Float32Array} x
 * @param {Float32Array} y
 */
function multiply(weight, x, y) {
  const inputs = x.length;
  let row = 0;
  for (; row + 3 < y.length; row += 4) {
    const p = row * inputs;
    const q = p + inputs;
    const r = q + inputs;
    const s = r + inputs;
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let i = 0; i < inputs; i += 1) {
      const unit = x[i];
      a += weight[p + i] * unit;
      b += weight[q + i] * unit;
      c += weight[r + i] * unit;
      d += weight[s + i] * unit;
    }
    y[row] += a;
    y[row + 1] += b;
    y[row + 2] += c;
    y[row + 3] += d;
  }
  for (; row < y.length; row += 1) y[row] += dot(x, weight.subarray(row * inputs, (row + 1) * inputs));
}

/**
 * The same of two vectors, two rows at a time: each weight is read once for both.
 *
 * @param {Float32Array} weight
 * @param {Float32Array} x
 * @param {Float32Array} other
 * @param {Float32Array} y
 * @param {Float32Array} otherY
 */
function multiplyTwo(weight, x, other, y, otherY) {
  const inputs = x.length;
  const rows = y.length;
  for (let row = 0; row < rows; row += 2) {
    const p = row * inputs;
    const q = row + 1 < rows ? p + inputs : p;
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let i = 0; i < inputs; i += 1) {
      const upper = weight[p + i];
      const lower = weight[q + i];
      const unit = x[i];
      const otherUnit = other[i];
      a += upper * unit;
      b += upper * otherUnit;
      c += lower * unit;
      d += lower * otherUnit;
    }
    y[row] += a;
    otherY[row] += b;
    if (q === p) return;
    y[row + 1] += c;
    otherY[row + 1] += d;
  }
}

/** A layer applied to rows of an embedding, each when it is first needed. */
export class Table {
  /** @param {Tensor} embedding @param {Linear} layer */
  constructor(embedding, layer) {
    this.embedding = embedding;
    this.layer = layer;
    /** @type {Map<number, Float32Array>} */
    this.known = new Map();
  }

  /** @param {number[]} ids @returns {Float32Array[]} */
  rows(ids) {
    const missing = [...new Set(ids)].filter((id) => !this.known.has(id));
    const computed = this.layer.all(missing.map((id) => rowOf(this.embedding, id)));
    missing.forEach((id, i) => this.known.set(id, computed[i]));
    return ids.map((id) => /** @type {Float32Array} */ (this.known.get(id)));
  }
}

/** One row of a matrix. @param {Tensor} matrix @param {number} index @returns {Float32Array} */
export function rowOf({ data, shape }, index) {
  return data.subarray(index * shape[1], (index + 1) * shape[1]);
}

/** Layer normalization (Ba et al. 2016). */
export class LayerNorm {
  /** @param {Part} part */
  constructor(part) {
    this.gain = part.tensor("weight").data;
    this.shift = part.tensor("bias").data;
  }

  /** @param {Float32Array} units @returns {Float32Array} */
  apply(units) {
    const mean = units.reduce((a, b) => a + b, 0) / units.length;
    const variance = units.reduce((sum, unit) => sum + (unit - mean) ** 2, 0) / units.length;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    return units.map((unit, i) => (unit - mean) * scale * this.gain[i] + this.shift[i]);
  }
}

/** The tensors whose names begin with a prefix. */
export class Part {
  /** @param {Tensors} tensors @param {string} prefix "" or ending in "." */
  constructor(tensors, prefix = "") {
    this.tensors = tensors;
    this.prefix = prefix;
  }

  /** @param {string} name @returns {Part} */
  part(name) {
    return new Part(this.tensors, `${this.prefix}${name}.`);
  }

  /** @param {string} name @returns {boolean} whether there is such a layer */
  has(name) {
    return this.tensors.has(`${this.prefix}${name}.weight`);
  }

  /** @param {string} name @returns {Tensor} */
  tensor(name) {
    const found = this.tensors.get(this.prefix + name);
    if (!found) throw new Error(`the weights lack ${this.prefix}${name}`);
    return found;
  }

  /** @param {string} name @returns {Linear} */
  linear(name) {
    const bias = this.tensors.get(`${this.prefix}${name}.bias`);
    return new Linear(this.tensor(`${name}.weight`), bias?.data);
  }

  /** @param {string} name @returns {Linear | undefined} */
  linearIfAny(name) {
    return this.has(name) ? this.linear(name) : undefined;
  }
}

// --- vectors ---------------------------------------------------------------------------------------------------------

/** @param {...Float32Array} parts @returns {Float32Array} one vector of all */
export function joined(...parts) {
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** @param {Float32Array} a @param {...(Float32Array | undefined)} others @returns {Float32Array} their sum */
export function added(a, ...others) {
  const sum = a.slice();
  for (const other of others) if (other) for (let i = 0; i < sum.length; i += 1) sum[i] += other[i];
  return sum;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b @returns {number} */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** @param {number} x @returns {number} */
export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** @param {Float32Array} energies some of them may be minus infinity @returns {Float32Array} */
export const softmax = (energies) => logSoftmax(energies).map(Math.exp);

/** @param {Float32Array} logits @returns {Float32Array} */
export function logSoftmax(logits) {
  let most = -Infinity;
  for (let i = 0; i < logits.length; i += 1) if (logits[i] > most) most = logits[i];
  let total = 0;
  for (let i = 0; i < logits.length; i += 1) total += Math.exp(logits[i] - most);
  const norm = most + Math.log(total);
  const logs = new Float32Array(logits.length);
  for (let i = 0; i < logits.length; i += 1) logs[i] = logits[i] - norm;
  return logs;
}
