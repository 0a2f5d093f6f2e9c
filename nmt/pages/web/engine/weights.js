/** Weights from a safetensors file, and the layers that are made of them. The engine computes in fp32. */

/**
 * @typedef {{data: Float32Array, shape: number[]}} Tensor a matrix has its rows one after another
 * @typedef {Map<string, Tensor>} Tensors
 */

/** The numbers of a tensor, by their type in the file. @type {Record<string, (bytes: ArrayBuffer) => Float32Array>} */
const READ = {
  F16: halves,
  F32: (bytes) => new Float32Array(bytes),
};

/** Numbers of 16 bits: as fp32 with the same bits, they are 2 ** 112 times too small. @param {ArrayBuffer} bytes */
function halves(bytes) {
  const codes = new Uint32Array(new Uint16Array(bytes));
  const numbers = new Float32Array(codes.buffer);
  for (let i = 0; i < codes.length; i += 1) {
    codes[i] = ((codes[i] & 0x8000) << 16) | ((codes[i] & 0x7fff) << 13); // the sign; exponent and fraction
    numbers[i] *= 2 ** 112;
  }
  return numbers;
}

/** Read a safetensors file. @param {ArrayBuffer} file @returns {Tensors} */
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
  return tensors;
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

  /** @param {Float32Array} x (I,) @returns {Float32Array} (O,) */
  apply(x) {
    return this.all([x])[0];
  }

  /** @param {Float32Array[]} xs (I,) each @returns {Float32Array[]} (O,) each */
  all(xs) {
    const { weight, bias, inputs: n, outputs } = this;
    const ys = xs.map(() => bias?.slice() ?? new Float32Array(outputs));
    const whole = outputs - (outputs % 8);
    for (let k = 0; k < xs.length; k += 2) {
      if (k + 1 < xs.length) multiplyTwo(weight, xs[k], xs[k + 1], ys[k], ys[k + 1], whole);
      else multiply(weight, xs[k], ys[k], whole);
    }
    for (let row = whole; row < outputs; row += 1)
      xs.forEach((x, k) => (ys[k][row] += dot(x, weight.subarray(row * n, (row + 1) * n))));
    return ys;
  }
}

/**
 * Add W x to y, eight rows at a time: each unit of x is read once for them.
 *
 * @type {(weight: Float32Array, x: Float32Array, y: Float32Array, rows: number) => void} rows: a multiple of eight
 */
function multiply(weight, x, y, rows) {
  const n = x.length;
  for (let row = 0; row < rows; row += 8) {
    let a = 0; // scalars: an array of sums is slower
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
}

/**
 * The same for two vectors, four rows at a time: each weight is read once for both.
 *
 * @type {(w: Float32Array, x: Float32Array, other: Float32Array, y: Float32Array, otherY: Float32Array, rows: number) => void}
 */
function multiplyTwo(weight, x, other, y, otherY, rows) {
  const n = x.length;
  for (let row = 0; row < rows; row += 4) {
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
