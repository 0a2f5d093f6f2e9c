/** Weights from a safetensors file, and the layers that are made of them. All numbers are held as fp32. */

/**
 * @typedef {{data: Float32Array, shape: number[]}} Tensor a matrix has its rows one after another
 * @typedef {Map<string, Tensor>} Tensors
 */

/** The numbers of a part of the file, by their type. @type {Record<string, (bytes: ArrayBuffer) => Float32Array>} */
const READ = {
  F32: (bytes) => new Float32Array(bytes),
  I8: (bytes) => new Float32Array(new Int8Array(bytes)),
  U8: (bytes) => new Float32Array(new Uint8Array(bytes)),
};

/**
 * Read a safetensors file of fp32 and rounded matrices: of a rounded one NAME, NAME has the upper 8 bits, NAME.low those
 * below, and NAME.step the unit of each row; the first two have the rows in the order of their units.
 *
 * @param {ArrayBuffer} file
 * @returns {Tensors}
 */
export function readSafetensors(file) {
  const start = 8 + Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.slice(8, start)));
  delete header.__metadata__;
  /** @type {Tensors} */
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (!(dtype in READ))
      throw new Error(`the weights ${name} are of type ${dtype}; use ${Object.keys(READ).join(", ")}`);
    tensors.set(name, { data: READ[dtype](file.slice(start + offsets[0], start + offsets[1])), shape });
  }
  for (const [name, { data, shape }] of tensors) {
    const [steps, low] = ["step", "low"].map((part) => tensors.get(`${name}.${part}`)?.data);
    if (!steps || !low) continue;
    const whole = data.map((upper, i) => 256 * upper + low[i]);
    const order = [...steps.keys()].sort((a, b) => steps[a] - steps[b]);
    order.forEach((row, place) => {
      for (let i = 0; i < shape[1]; i += 1) data[row * shape[1] + i] = steps[row] * whole[place * shape[1] + i];
    });
  }
  return tensors;
}

/** Unpack what gzip has compressed. @param {BlobPart} bytes */
export function decompressed(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** The tensors whose names begin with a prefix. */
export class Part {
  /** @param {Tensors} tensors @param {string} prefix "" or ending in "." */
  constructor(tensors, prefix = "") {
    this.tensors = tensors;
    this.prefix = prefix;
  }

  /** @param {string} name */
  part(name) {
    return new Part(this.tensors, `${this.prefix}${name}.`);
  }

  /** @param {string} name @returns {Tensor} */
  tensor(name) {
    const found = this.tensors.get(this.prefix + name);
    if (!found) throw new Error(`the weights lack ${this.prefix}${name}`);
    return found;
  }

  /** @param {string} name whether there is such a tensor */
  has(name) {
    return this.tensors.has(this.prefix + name);
  }

  /** @param {string} name */
  linear(name) {
    return new Linear(this.tensor(`${name}.weight`), this.tensors.get(`${this.prefix}${name}.bias`)?.data);
  }

  /** @param {string} name */
  linearIfAny(name) {
    return this.has(`${name}.weight`) ? this.linear(name) : undefined;
  }
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

  /** Of one vector. @param {Float32Array} x (I,) */
  apply(x) {
    return this.all([x])[0];
  }

  /** Of several. @param {Float32Array[]} xs (I,) each */
  all(xs) {
    const ys = xs.map(() => this.bias?.slice() ?? new Float32Array(this.outputs));
    for (let i = 0; i < xs.length; i += 2) {
      if (i + 1 < xs.length) multiplyTwo(this.weight, xs[i], xs[i + 1], ys[i], ys[i + 1]);
      else multiply(this.weight, xs[i], ys[i]);
    }
    return ys;
  }
}

/**
 * Add W x to y, eight rows at a time: each unit of x is read once for them.
 *
 * @param {Float32Array} weight
 * @param {Float32Array} x
 * @param {Float32Array} y
 */
function multiply(weight, x, y) {
  const n = x.length;
  let row = 0;
  for (; row + 7 < y.length; row += 8) {
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    let e = 0;
    let f = 0;
    let g = 0;
    let h = 0;
    for (let i = 0, at = row * n; i < n; i += 1, at += 1) {
      const unit = x[i];
      a += weight[at] * unit;
      b += weight[at + n] * unit;
      c += weight[at + 2 * n] * unit;
      d += weight[at + 3 * n] * unit;
      e += weight[at + 4 * n] * unit;
      f += weight[at + 5 * n] * unit;
      g += weight[at + 6 * n] * unit;
      h += weight[at + 7 * n] * unit;
    }
    y[row] += a;
    y[row + 1] += b;
    y[row + 2] += c;
    y[row + 3] += d;
    y[row + 4] += e;
    y[row + 5] += f;
    y[row + 6] += g;
    y[row + 7] += h;
  }
  for (; row < y.length; row += 1) y[row] += dot(x, weight.subarray(row * n, (row + 1) * n));
}

/**
 * The same of two vectors, four rows at a time: each weight is read once for both.
 *
 * @param {Float32Array} weight
 * @param {Float32Array} x
 * @param {Float32Array} other
 * @param {Float32Array} y
 * @param {Float32Array} otherY
 */
function multiplyTwo(weight, x, other, y, otherY) {
  const n = x.length;
  const whole = y.length - (y.length % 4);
  for (let row = 0; row < whole; row += 4) {
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    let e = 0;
    let f = 0;
    let g = 0;
    let h = 0;
    for (let i = 0, at = row * n; i < n; i += 1, at += 1) {
      const unit = x[i];
      const otherUnit = other[i];
      const p = weight[at];
      const q = weight[at + n];
      const r = weight[at + 2 * n];
      const s = weight[at + 3 * n];
      a += p * unit;
      b += q * unit;
      c += r * unit;
      d += s * unit;
      e += p * otherUnit;
      f += q * otherUnit;
      g += r * otherUnit;
      h += s * otherUnit;
    }
    y[row] += a;
    y[row + 1] += b;
    y[row + 2] += c;
    y[row + 3] += d;
    otherY[row] += e;
    otherY[row + 1] += f;
    otherY[row + 2] += g;
    otherY[row + 3] += h;
  }
  const rest = weight.subarray(whole * n);
  multiply(rest, x, y.subarray(whole));
  multiply(rest, other, otherY.subarray(whole));
}

/**
 * A layer applied to rows of an embedding, each when it is first needed.
 *
 * @param {Tensor} embedding
 * @param {Linear} layer
 * @returns {(ids: number[]) => Float32Array[]}
 */
export function tabulated({ data, shape }, layer) {
  /** @type {Map<number, Float32Array>} */
  const known = new Map();
  return (ids) =>
    ids.map((id) => {
      const row = known.get(id) ?? layer.apply(data.subarray(id * shape[1], (id + 1) * shape[1]));
      known.set(id, row);
      return row;
    });
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

/** @param {number} x */
export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** @param {Float32Array} energies some of them may be minus infinity */
export const softmax = (energies) => logSoftmax(energies).map(Math.exp);

/** @param {Float32Array} logits */
export function logSoftmax(logits) {
  let most = -Infinity;
  for (let i = 0; i < logits.length; i += 1) if (logits[i] > most) most = logits[i];
  let total = 0;
  for (let i = 0; i < logits.length; i += 1) total += Math.exp(logits[i] - most);
  const norm = most + Math.log(total);
  return logits.map((logit) => logit - norm);
}
